"""JSON in the columns of the store.

Values and keys lose their secrets before they become one text: a replacement within that text could end a quote and
leave something that no one can read again. A column that cannot be read, whatever damaged it, reads as a given stand-in
with one line in the log, so that one bad row does not hide the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import checks
from .errors import InvalidInput
from .redact import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

_told: set[str] = set()


def dump(value: object, what: str, *, sort: bool = False) -> str:
    """A value as JSON without its secrets; InvalidInput when it is no JSON or does not fit."""
    # Imported where it is needed: most rows keep no JSON, and hooks pay for every import.
    import json

    try:
        text = json.dumps(clean(value), allow_nan=False, sort_keys=sort)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be stored as JSON: {error}.") from error
    return checks.text(text, what)


def dump_object(value: Mapping[str, object] | None, what: str) -> str:
    """The same for a mapping, its keys in order."""
    if not value:
        return "{}"
    try:
        return dump(dict(value), what, sort=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} cannot be stored as JSON: {error}.") from error


def merge(kept: str, added: str, what: str) -> str:
    """One object of two columns' texts: a key of the second replaces that of the first. Neither has a secret."""
    if added == "{}":
        return kept
    import json

    both = {**load_object(kept, what), **load_object(added, what)}
    return checks.text(json.dumps(both, sort_keys=True), what)


def load(text: str | None, what: str, damaged: object = None) -> object:
    """The value of a column; `damaged` when it cannot be read. `what` names the column in the log."""
    if text is None:
        return None
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        _tell(what)
        return damaged


def load_object(text: str | None, what: str) -> dict[str, object]:
    """The same for a column of objects: an empty one when it cannot be read or is no object."""
    if text == "{}":
        return {}
    loaded = load(text, what, {})
    if isinstance(loaded, dict):
        return loaded
    _tell(what)
    return {}


def _tell(what: str) -> None:
    """Once for each column: a damaged row is read again and again."""
    if what not in _told:
        _told.add(what)
        import logging

        logging.getLogger("engram.store").warning(
            "%s holds text that is not the expected JSON; it reads as empty", what
        )
