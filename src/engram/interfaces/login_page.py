"""Opens a browser, logged in, without showing the link to other users of the machine.

Every user can read the arguments of a process, and a browser is started with an address. So the address is that of a
private file, which sends the browser on to the link. The link works once and for ten minutes. Files of older links are
removed when the next one is written, and when a server starts or ends.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from .. import private_files
from .server_file import data_folder

if TYPE_CHECKING:
    from ..config import Config

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Engram</title>
</head>
<body><p><a href="{link}">Log in to Engram</a></p></body>
</html>
"""


def make_link(settings: Config, url: str) -> str:
    """A link that logs a browser in to the server at this address, once, as the user of this machine."""
    from ..access_records import OWNER
    from ..client import Engram

    with Engram(settings=settings, create=False) as eng:
        return f"{url}/login?code={eng.access.logins.make_link(OWNER)}"


def has_browser() -> bool:
    """Whether a browser with a window can be opened. One that runs in the terminal does not count."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def show(settings: Config, link: str) -> bool:
    """Open a link in the browser; whether there is one."""
    import webbrowser

    if not has_browser():
        return False
    remove_old(settings)
    path = os.path.join(_folder(settings), f"{os.urandom(8).hex()}.html")
    private_files.make_folder(os.path.dirname(path))
    private_files.make_file(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(_PAGE.format(link=escape(link)))
    if webbrowser.open(Path(path).as_uri()):
        return True
    os.unlink(path)
    return False


def remove_old(settings: Config) -> None:
    """Remove the files of links that no longer work."""
    from ..access_records import LINK_LIFE

    folder = _folder(settings)
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with suppress(OSError):
                if os.stat(path).st_mtime < time.time() - LINK_LIFE:
                    os.unlink(path)


def _folder(settings: Config) -> str:
    return data_folder(settings, "logins")
