"""The files of the pages: styles, scripts, fonts. They are the same for everybody and no secret."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ..http import calls

_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}


class File(NamedTuple):
    content: bytes
    kind: str
    tag: str


@lru_cache(maxsize=1)
def _files() -> dict[str, File]:
    found = {}
    for each in files(__package__).joinpath("static").iterdir():
        kind = _KINDS.get(each.name.rpartition(".")[2])
        if kind is not None:
            content = each.read_bytes()
            found[each.name] = File(content, kind, f'"{sha256(content).hexdigest()[:16]}"')
    return found


async def static(request: Request) -> Response:
    """A file. Browsers keep it and ask whether it has changed, so an upgrade shows at once."""
    request.scope[calls.ROUTE] = "/static"
    found = _files().get(request.path_params["name"])
    if found is None:
        return Response(status_code=404)
    headers = {"cache-control": "no-cache", "etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.kind)
