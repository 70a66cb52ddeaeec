"""Writes the pictures of the dashboard into docs/img: every page, light and dark, on a desktop and on a phone.

They show the made-up month of `engram demo --fill`, served by the real server to Debian's Chromium. Run it with
`make screenshots`, and look at each picture afterwards.
"""

from __future__ import annotations

import os
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.conftest import find_chromium
from tests.interfaces._server import Server, serving

from engram import Engram
from engram.config import load
from engram.interfaces.demo import filling

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).parent / "img"
WORKSPACE = "demo"
WINDOWS: dict[str, dict[str, Any]] = {
    "": {"viewport": {"width": 1360, "height": 860}},
    "-phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}


def pages(eng: Engram) -> dict[str, str]:
    """The address of each picture."""
    (charged,) = [each for each in eng.sessions.list(200) if "charged twice" in each.summary.lower()][:1]
    staging = next(each for each in eng.memories.list(kind="fact") if "port 9443" in each.content)
    return {
        "now": "",
        "search": "search?q=why were customers charged twice",
        "session": f"sessions/{charged.id}",
        "memory": "memory?project=acme/shop",
        "memories": "memory?view=all",
        "one-memory": f"memories/{staging.id}",
        "blocks": "blocks",
        "block": "blocks/world",
        "time": "time",
        "dreams": "dreams",
        "passes": "dreams?view=passes",
        "portrait": "portrait",
        "graph": f"graph?kind=session&id={charged.id}",
        "system": "system",
    }


def save(picture: bytes, file: Path) -> None:
    """A screen has few colours. With 256 of them a picture is a third as large and looks the same."""
    from PIL import Image

    Image.open(BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)


def take(browser: Browser, server: Server, addresses: dict[str, str]) -> None:
    for theme in ("light", "dark"):
        for window, options in WINDOWS.items():
            context = browser.new_context(color_scheme=theme, **options)
            page = context.new_page()
            page.goto(f"{server.url}/login")
            page.get_by_label("Access token").fill(server.token(f"you{window}-{theme}", "admin"))
            page.get_by_role("button", name="Log in").click()
            page.wait_for_url("**/w/**")
            for name, address in addresses.items():
                page.goto(f"{server.url}/w/{WORKSPACE}/{address}")
                page.wait_for_timeout(400)
                save(page.screenshot(), FOLDER / f"{name}{window}-{theme}.png")
            context.close()


def main() -> None:
    from playwright.sync_api import sync_playwright

    path = find_chromium()
    if path is None:
        raise SystemExit("Chromium is not installed; `make browser` installs it on Debian, as root.")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="engram-pictures-") as folder:
        url = os.path.join(folder, "engram.db")
        filling.fill(load(url=url, workspace=WORKSPACE))
        with Engram(url, workspace=WORKSPACE) as eng, serving(eng) as server, sync_playwright() as playwright:
            eng.embedding_queue.work()
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=path, args=["--disable-gpu", *arguments])
            take(browser, server, pages(eng))
            browser.close()


if __name__ == "__main__":
    main()
