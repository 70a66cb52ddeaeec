"""Lists in pages.

A page ends with a cursor: the key of its last row, as opaque text. The next page begins after that key. It is not a
number of rows to skip, so what others write in between makes no row appear twice or not at all.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks
from ..errors import InvalidInput
from ..records import plain
from .inputs import Operation

if TYPE_CHECKING:
    from ..client import Engram

#: More than any cursor that Engram gives.
_LONGEST = 1_000


class Page(NamedTuple):
    """One page of a list."""

    rows: list[Any]
    #: The cursor of the next page; None at the end.
    next: str | None


def perform_page(eng: Engram, operation: Operation, values: Mapping[str, object]) -> Page:
    """Perform an operation that has pages, with arguments that were checked. Limit 0 is one page with everything."""
    assert operation.page is not None
    wanted = dict(values)
    cursor = wanted.pop("cursor", None)
    start = () if cursor is None else read_cursor(str(cursor), operation)
    limit: Any = wanted.get("limit", operation.page.limit)
    # One row more shows whether there is a next page. A wrong limit is left as it is; the tier refuses it.
    wanted["limit"] = limit + 1 if 0 < limit < checks.MAX_WHOLE else limit
    rows: Any = plain(operation.handler(eng, **wanted, start=start))
    if limit < 1 or len(rows) <= limit:
        return Page(rows, None)
    rows = rows[:limit]
    return Page(rows, write_cursor([rows[-1][name] for name in operation.page.key]))


def write_cursor(key: list[object]) -> str:
    return urlsafe_b64encode(json.dumps(key, separators=(",", ":")).encode()).rstrip(b"=").decode()


def read_cursor(cursor: str, operation: Operation) -> tuple[Any, ...]:
    """The key in a cursor. InvalidInput for a text that no answer of this operation gave."""
    assert operation.page is not None
    try:
        if len(cursor) > _LONGEST:
            raise ValueError
        key = json.loads(urlsafe_b64decode(cursor.encode("ascii") + b"=="))
        if not isinstance(key, list) or tuple(map(type, key)) != operation.page.kinds:
            raise ValueError
        for part in key:
            checks.text(part, "cursor") if isinstance(part, str) else checks.whole(part, "cursor", least=0)
    except (ValueError, RecursionError, InvalidInput):
        raise InvalidInput("cursor is not the `next` of an earlier answer of this operation.") from None
    return tuple(key)
