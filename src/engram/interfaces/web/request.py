"""What a page is asked for, and the addresses of pages."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from ...access.permission import allows
from ...config import DEFAULT_WORKSPACE
from ...errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...access_records import Grant
    from ...client import Engram

#: The largest page number and the like that an address may hold.
_LONGEST_NUMBER = 15
#: Parts of a path that a browser takes for folders, also when they are encoded, and those that look like their mark.
_DOTS = re.compile(r"\A~*+\.{1,2}")
_MARKED = re.compile(r"\A~++\.{1,2}")


class PageRequest(NamedTuple):
    #: The workspace of the page, with the person's token as author.
    eng: Engram
    grant: Grant
    #: The names of the workspaces that the person may see.
    workspaces: Sequence[str]
    #: The parts of the path, such as the id of a session.
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    #: The store's time.
    now: str
    #: The address of the server, for commands that the person copies.
    base: str
    #: The number of the newest change before the page was made. An open page asks for what came after it.
    change: int = 0
    #: Whether the server was told to start passes of dreaming; None: as the setting `auto_dream` says.
    dreams: bool | None = None

    @property
    def workspace(self) -> str:
        return self.eng.workspace_name

    def may(self, scope: str) -> bool:
        """Whether the person's token has this scope: read, write or admin."""
        return allows(self.grant, scope)

    def typed(self, command: str) -> str:
        """A command as a person types it, so that it is about this workspace."""
        where = "" if self.workspace == DEFAULT_WORKSPACE else f"--workspace {shlex.quote(self.workspace)} "
        return f"engram {where}{command}"

    # Names in an address are names of arguments here, so no argument of these functions has a name of its own.
    def link(self, /, *path: object, **query: object) -> str:
        """The address of a page of this workspace: `link("sessions", id)`, `link("search", q="…")`.

        Values that are None or empty are left out. A list gives the name several times.
        """
        return link(self.workspace, *path, **query)

    def here(self, /, *path: object, **changed: object) -> str:
        """The address of a page with the query of this one, but for some values."""
        return self.link(*path, **{**self.query, **changed})

    def text(self, name: str, longest: int = 1_000) -> str:
        """A value of the query; empty if it is not given."""
        values = self.query.get(name)
        return values[-1].strip()[:longest] if values else ""

    def texts(self, name: str) -> list[str]:
        """All values of the query with this name that are not empty."""
        return [each for each in self.query.get(name, ()) if each]

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "true", "on")

    def whole(self, name: str, default: int, *, least: int = 0, most: int = 1_000) -> int:
        """A whole number of the query. What is out of bounds, or no number, is an error that the page shows."""
        given = self.text(name)
        if not given:
            return default
        if not (given.isascii() and given.isdigit()) or len(given) > _LONGEST_NUMBER or not least <= int(given) <= most:
            raise InvalidInput(f"{name} must be a whole number from {least} to {most}.")
        return int(given)

    def id(self, name: str = "id") -> int:
        """A number in the path."""
        given = self.path[name]
        if not (given.isascii() and given.isdigit()) or len(given) > _LONGEST_NUMBER:
            raise InvalidInput(f"{given[:40]!r} is not a number.")
        return int(given)


def link(workspace: str, /, *path: object, **query: object) -> str:
    first, *parts = [_part(str(each)) for each in (workspace, *path)]
    address = f"/w/{first}/{'/'.join(parts)}"
    given = {name: value for name, value in query.items() if value not in (None, "", [], ())}
    return f"{address}?{urlencode(given, doseq=True)}" if given else address


def _part(text: str) -> str:
    """A part of a path. `.` and `..` get a mark, because a browser would leave them out."""
    return f"~{text}" if _DOTS.fullmatch(text) else quote(text, safe="")


def unmarked(part: str) -> str:
    """What a part of a path means: the reverse of the mark that `link` makes."""
    return part[1:] if _MARKED.fullmatch(part) else part
