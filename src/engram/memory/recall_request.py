"""The filters of a recall, checked before anything is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..errors import InvalidInput
from .exchanges import ROLES
from .word_index import OWN_SHELVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scoring import Item

MODES = ("hybrid", "words", "vectors")
RERANK = ("auto", "always", "never")


class Filters(NamedTuple):
    """What a recall may return."""

    shelves: tuple[str, ...]
    session_id: str | None
    exclude_session: str | None
    kinds: frozenset[str] | None
    roles: frozenset[str] | None
    tags: tuple[str, ...]
    #: Only this project.
    project: str | None
    #: Only turns of this project, and memories of any.
    turns_project: str | None
    since: str | None
    until: str | None
    author: str | None = None

    @property
    def filtered(self) -> bool:
        """Whether the filters may exclude most items. One excluded session is little, and is left out afterwards."""
        return any((self.session_id, self.project, self.turns_project, self.since, self.until, self.author))

    def fits(self, item: Item) -> bool:
        labels = self.roles if item.kind == "exchange" else self.kinds
        # The archive also contains old gists, which are returned only on request.
        hidden = labels is None and item.kind == "memory" and item.label in OWN_SHELVES
        return (
            item.shelf in self.shelves
            and not hidden
            and (labels is None or item.label in labels)
            and (self.session_id is None or item.session_id == self.session_id)
            and (self.exclude_session is None or item.session_id != self.exclude_session)
            and (self.project is None or item.project == self.project)
            and (self.turns_project is None or item.kind != "exchange" or item.project == self.turns_project)
            and (self.since is None or item.at >= self.since)
            and (self.until is None or item.at < self.until)
            and (self.author is None or item.author == self.author)
        )


def filters(
    what: Sequence[str],
    session_id: str | None,
    exclude_session: str | None,
    kinds: Sequence[str] | None,
    roles: Sequence[str] | None,
    tags: Sequence[str] | None,
    project: str | None,
    turns_project: str | None,
    since: str | None,
    until: str | None,
    include_archived: bool,
    author: str | None = None,
) -> Filters:
    """Checked filters. InvalidInput when one of them makes no sense."""
    return Filters(
        shelves=_shelves(what, kinds, roles, include_archived),
        session_id=checks.optional_name(session_id, "session id"),
        exclude_session=checks.optional_name(exclude_session, "session id"),
        kinds=None if kinds is None else frozenset(_names(kinds, "kind")),
        roles=None if roles is None else frozenset(_roles(roles)),
        tags=tuple(_names(tags or (), "tag")),
        project=checks.optional_name(project, "project"),
        turns_project=checks.optional_name(turns_project, "project"),
        since=None if since is None else checks.moment(since, "since"),
        until=None if until is None else checks.moment(until, "until"),
        author=checks.optional_name(author, "author"),
    )


def expect(value: object, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise InvalidInput(f"{what} is {value!r}; it must be one of {', '.join(known)}.")


def _names(given: Sequence[str], what: str) -> list[str]:
    if isinstance(given, str):
        raise InvalidInput(f"{what}s is the text {given!r}; give a list of {what}s.")
    return [checks.name(name, what) for name in given]


def _roles(given: Sequence[str]) -> list[str]:
    unknown = set(_names(given, "role")) - set(ROLES)
    if unknown:
        raise InvalidInput(f"role is {min(unknown)!r}; it must be one of {', '.join(ROLES)}.")
    return list(given)


def _shelves(
    what: Sequence[str], kinds: Sequence[str] | None, roles: Sequence[str] | None, include_archived: bool
) -> tuple[str, ...]:
    """The shelves to search: turns and memories, and others that are requested."""
    unknown = set(what) - {"exchanges", "memories"}
    if unknown or isinstance(what, str):
        raise InvalidInput(f"what is {what!r}; it must be a list with exchanges, memories or both.")
    shelves: list[str] = []
    if "exchanges" in what:
        shelves += ["turns"] if roles is None or set(roles) - {"log"} else []
        shelves += ["logs"] if roles is not None and "log" in roles else []
    if "memories" in what:
        shelves += ["memories"] if kinds is None or set(kinds) - OWN_SHELVES.keys() else []
        shelves += sorted(OWN_SHELVES[kind] for kind in set(kinds or ()) & OWN_SHELVES.keys())
        shelves += ["archive"] if include_archived else []
    return tuple(shelves)
