"""The formats of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidInput
from ..setup_records import EXPORT_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..setup_records import Exported
    from ..store_view import StoreView


def export(
    view: StoreView,
    place: str,
    format: str,
    *,
    everything: bool,
    with_vectors: bool,
    force: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write a workspace or a store in one of the formats."""
    if format == "jsonl":
        from . import exporting

        return exporting.export(
            view, place, everything=everything, with_vectors=with_vectors, force=force, progress=progress
        )
    if format != "markdown":
        raise InvalidInput(f"There is no format {format!r}; the formats are {' and '.join(EXPORT_FORMATS)}.")
    if with_vectors:
        raise InvalidInput("Pages for people have no vectors; use the format jsonl for them.")
    from . import markdown

    return markdown.export(view, place, everything=everything, force=force, progress=progress)
