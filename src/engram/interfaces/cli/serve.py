"""`engram serve`: the HTTP server, for several machines and people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ...errors import InvalidInput
from .common import command, load_settings, result, typed
from .persons import is_person
from .screen import say, style

if TYPE_CHECKING:
    from ...config import Config
    from ..server_file import Running

#: Seconds in which a server must answer before a browser is opened.
_OPEN_WITHIN = 60.0
#: Packages of the extra `server`.
_PACKAGES = ("fastapi", "httptools", "prometheus_client", "uvicorn", "uvloop")


@command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8377, show_default=True, help="Port to listen on.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of processes that answer."
)
@click.option("--public-url", metavar="URL", help="Address that clients use, if it is another one: https://host[:port]")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Certificate, in PEM format.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Key of the certificate.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front encrypts, and says who the client is.")
@click.option(
    "--dream/--no-dream",
    default=None,
    help="Dream in all workspaces when a pass is due.  [default: setting auto_dream]",
)
@click.option("--open", "opens", is_flag=True, help="Open the browser, logged in, when the server answers.")
@click.pass_context
def serve(ctx: click.Context, /, host: str, port: int, dream: bool | None, opens: bool, **given: Any) -> None:
    """Serve the store over HTTP, until Ctrl-C.

    Every request needs a token. The first start makes one for you, and prints where it is and a link that logs a
    browser in once. `engram open` logs in another browser, `engram token create` makes more tokens. docs/server.md
    describes the interface.
    """
    settings = load_settings(ctx)
    if opens and not is_person():
        say(f"{style('Warning:', fg='yellow')} --open is ignored in an agent's shell.", err=True)
        opens = False
    url = _public_url(host, _checked(host, **given)["public_url"])
    if settings.url.startswith(("http://", "https://")):
        raise InvalidInput("The store is another server. Name the store itself with --store or ENGRAM_URL.")
    _need_packages()
    if dream is not None:
        # The command that dreams is a process of its own, and reads its settings anew.
        os.environ["ENGRAM_AUTO_DREAM"] = "on" if dream else "off"
        settings = settings._replace(auto_dream="on" if dream else "off")
    from ..http.options import Options
    from ..http.serving import Tls, listen
    from ..http.serving import serve as run

    at = listen(host, port)
    with at.socket:
        public = url or f"{'https' if given['tls_cert'] else 'http'}://{_shown(host)}:{at.port}"
        started, is_empty = _first_start(settings, public)
        result(ctx, started, lambda: _said(started, is_empty=is_empty))
        tls = Tls(given["tls_cert"], given["tls_key"]) if given["tls_cert"] else None
        options = Options(
            url, given["behind_proxy"], dream=dream, chores=True, log=True, host=host, port=at.port, tls=tls is not None
        )
        with _found(settings, public, host, at.port, opens=opens, tls=tls is not None):
            run(settings, options, at, workers=given["workers"], tls=tls)


@contextmanager
def _found(settings: Config, url: str, host: str, port: int, *, opens: bool, tls: bool) -> Iterator[None]:
    """Let `engram open` find the server within the block, and open the browser if that is wanted."""
    from threading import Thread

    from .. import login_page
    from ..server_file import announced

    login_page.remove_old(settings)
    try:
        with announced(settings, url, host, port, tls=tls) as running:
            if opens:
                Thread(target=_open, args=(settings, running), name="engram-open", daemon=True).start()
            yield
    finally:
        login_page.remove_old(settings)


def _open(settings: Config, running: Running) -> None:
    """Open the browser as soon as the server answers. A failure is told; the server goes on."""
    import time

    from ...errors import EngramError
    from .. import login_page
    from ..server_file import answers

    deadline = time.monotonic() + _OPEN_WITHIN
    while not answers(running):
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)
    try:
        link = login_page.make_link(settings, running.url)
        if not login_page.show(settings, link):
            say(f"No browser was found. To log one in, open this link within ten minutes. It works once: {link}")
    except (EngramError, OSError) as error:
        say(f"{style('Warning:', fg='yellow')} The browser was not opened: {error}", err=True)


def _checked(host: str, **given: Any) -> dict[str, Any]:
    """Refuse what would show tokens to others on the network."""
    if bool(given["tls_cert"]) != bool(given["tls_key"]):
        raise InvalidInput("--tls-cert and --tls-key belong together; give both.")
    if not _is_loopback(host) and not given["tls_cert"] and not given["behind_proxy"]:
        raise InvalidInput(
            f"--host {host!r} can be reached by other machines, and nothing would be encrypted. Give --tls-cert and "
            "--tls-key, or --behind-proxy if a proxy in front encrypts."
        )
    return given


def _public_url(host: str, public_url: str | None) -> str | None:
    """The address that clients use; None if it is where the server listens."""
    if public_url is None:
        if host in ("0.0.0.0", "::", ""):
            raise InvalidInput(
                f"--host {host!r} is every address of this machine. Say with --public-url which one clients use."
            )
        return None
    from ..http.origins import public_origin

    return public_origin(public_url)


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _need_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        from ..._version import install_command
        from ...errors import MissingExtra

        raise MissingExtra(
            f"The server needs packages that are not installed ({', '.join(missing)}): {install_command('server')}"
        )


def _first_start(settings: Config, url: str) -> tuple[dict[str, object], bool]:
    """Make the first token, if there is none; what to tell the user, and whether nothing is in the store."""
    from ...access_records import Grant
    from ...client import Engram
    from ...store_url import masked

    started: dict[str, object] = {"url": url, "store": masked(settings.url)}
    path = _token_file(settings)
    with Engram(settings=settings) as eng:
        made = eng.access.ensure_admin(path)
        if made is not None:
            token = made.token
            grant = Grant(token.name, token.scope, token.workspace, token.id, token.expires_at)
            code = eng.access.logins.make_link(grant)
            started |= {"admin_token_file": path, "login": f"{url}/login?code={code}"}
        return started, not eng.workspaces()


def _token_file(settings: Config) -> str:
    """Where the secret of the first token goes. Another store in the same data folder has another file."""
    from zlib import crc32

    from ...config import normal_url
    from ...store_url import masked

    is_default = settings.url == normal_url("", settings.data_dir)
    name = "admin.token" if is_default else f"admin-{crc32(masked(settings.url).encode()):08x}.token"
    return os.path.join(os.path.abspath(os.path.expanduser(settings.data_dir)), name)


def _said(started: dict[str, object], *, is_empty: bool) -> str:
    lines = [f"{style('Engram', bold=True)} serves {started['store']} at {style(str(started['url']), bold=True)}"]
    if "login" in started:
        lines += [
            f"Your admin token is in {started['admin_token_file']}, which only you can read.",
            f"To log a browser in, open this link within ten minutes. It works once: {started['login']}",
        ]
    else:
        lines.append(f"To log a browser in, type in another terminal: {typed('open')}")
    if is_empty and sys.stdout.isatty():
        lines.append("The store is empty. `engram demo --fill` fills a workspace `demo` with a month of made-up data.")
    lines.append("Ctrl-C ends it.")
    return "\n".join(lines)
