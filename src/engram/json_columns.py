"""JSON in the columns of the store.

Secrets are removed from values and keys before they become JSON text: a replacement within the text could remove a
quotation mark and make the JSON invalid. A damaged column reads as a default value, with one line in the log, so that
one bad row does not hide the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from . import checks
from .errors import InvalidInput
from .redact import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .json_shapes import Shape

_warned: set[str] = set()
#: Levels of lists and objects within each other. Deeper JSON cannot be shown: each level takes some of Python's stack.
MAX_DEPTH = 100


def dump(value: object, what: str, *, sort: bool = False) -> str:
    """The value as JSON, without its secrets. Raises InvalidInput if JSON cannot express it or it is too long."""
    # Imported here, because most rows have no JSON and hooks must start fast.
    import json

    _check_depth(value, what)
    try:
        text = json.dumps(clean(value), allow_nan=False, sort_keys=sort)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be stored as JSON: {error}.") from error
    return checks.text(text, what)


def _check_depth(value: object, what: str) -> None:
    """InvalidInput if lists and objects are nested too deeply, or contain themselves."""
    level = _nested([value])
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = _nested(inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
    if level:
        raise InvalidInput(f"{what} is nested more than {MAX_DEPTH} levels deep.")


def _nested(values: Iterable[object]) -> list[dict[object, object] | list[object] | tuple[object, ...]]:
    # Each one once, because one list may be in many places.
    return list({id(each): each for each in values if isinstance(each, dict | list | tuple)}.values())


def dump_object(value: Mapping[str, object] | str | None, what: str) -> str:
    """The mapping as JSON, as `dump` does it, with sorted keys.

    A text that is a JSON object stands for that object. Any other text becomes `{"text": …}`.
    """
    if isinstance(value, str):
        value = _object_in(checks.text(value, what, empty=True))
    if not value:
        return "{}"
    try:
        return dump(dict(value), what, sort=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} cannot be stored as JSON: {error}.") from error


def _object_in(text: str) -> Mapping[str, object]:
    import json

    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return {"text": text} if text.strip() else {}


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON


def merge(kept: str, added: str, what: str) -> str:
    """Merges two JSON objects that `dump_object` made, so they have no secrets. The values of `added` win."""
    if added == "{}":
        return kept
    import json

    both = {**load_object(kept, what), **load_object(added, what)}
    return checks.text(json.dumps(both, sort_keys=True), what)


def load(text: str | None, what: str, damaged: object = None, shape: Shape | None = None) -> object:
    """The value of a column, or `damaged` if it is not valid JSON or has another shape. `what` names the column in the
    log."""
    if text is None:
        return None
    import json

    try:
        found = json.loads(text)
        if shape is None or shape(found):
            return found
    except (ValueError, RecursionError):
        pass
    _warn_once(what)
    return damaged


def load_object(text: str | None, what: str, shape: Shape | None = None) -> dict[str, object]:
    """The object in a column. Empty if the column is not valid JSON, not an object, or has another shape."""
    if text == "{}":
        return {}
    loaded = load(text, what, {}, shape)
    if isinstance(loaded, dict):
        return loaded
    _warn_once(what)
    return {}


def _warn_once(what: str) -> None:
    """Warns once per column, because a damaged row may be read often."""
    if what not in _warned:
        _warned.add(what)
        import logging

        logging.getLogger("engram.store").warning(
            "%s contains text that is not the expected JSON; it is read as empty", what
        )
