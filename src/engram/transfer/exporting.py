"""Writes a workspace or a whole store into a file.

Everything is read in one transaction, so the file shows one moment, whatever others write meanwhile. Rows are read in
pages and written at once. The file appears under its name only when it is complete, see `places`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

from .._version import VERSION
from ..setup_records import Exported
from ..storage import rows
from . import jsonl, vectors
from .naming import workspaces
from .places import STANDARD_OUTPUT, new_file
from .tables import EXPORTED, FEED, NUMBERED, TABLES

if TYPE_CHECKING:
    from ..storage.engine import Transaction
    from ..store_view import StoreView

    #: Called with the number of records written and the total.
    Progress = Callable[[int, int], None]


def export(
    view: StoreView,
    place: str,
    *,
    everything: bool,
    with_vectors: bool,
    force: bool,
    progress: Progress | None = None,
    output: IO[bytes] | None = None,
) -> Exported:
    """Write the workspace, or with `everything` the store, into a file. `output` is where `-` is written to."""
    if place == STANDARD_OUTPUT:
        return _export(view, place, output or sys.stdout.buffer, everything, with_vectors, progress)
    place = os.path.abspath(place)
    with new_file(place, force) as file:
        return _export(view, place, file, everything, with_vectors, progress)


def _export(
    view: StoreView, place: str, file: IO[bytes], everything: bool, with_vectors: bool, progress: Progress | None
) -> Exported:
    only = None if everything else view.workspace
    writer = jsonl.Writer(file)
    counts: dict[str, int] = {}
    with view.engine.read() as tx:
        names = workspaces(tx) if everything else [view.workspace]
        feed = tx.last_number(FEED)
        writer.header(jsonl.Header(jsonl.FORMAT_VERSION, VERSION, tx.now(), tuple(names), with_vectors, feed))
        for table in NUMBERED:
            writer.record("number", {"of": table.name, "last": tx.last_number(table)})
        writer.end("number")
        total = sum(rows.count(tx, moved.table, only) for moved in EXPORTED) if progress else 0
        done = 0
        for moved in EXPORTED:
            assert moved.record is not None
            for page in rows.pages(tx, moved.table, only):
                for row in page:
                    writer.record(moved.record, jsonl.values_of(moved.table, row))
                done += len(page)
                if progress:
                    progress(done, total)
            counts[moved.record] = writer.end(moved.record)
        if with_vectors:
            counts[vectors.RECORD] = _write_vectors(tx, writer, names)
    writer.footer()
    file.flush()
    return Exported(
        place, "jsonl", tuple(names), counts, writer.bytes, left_out(with_vectors), view.engine.is_encrypted
    )


def _write_vectors(tx: Transaction, writer: jsonl.Writer, names: list[str]) -> int:
    for workspace in names:
        for vector in vectors.read(tx, workspace):
            writer.record(vectors.RECORD, jsonl.values_of(vectors.FORM, vector))
    return writer.end(vectors.RECORD)


def left_out(with_vectors: bool = False) -> dict[str, str]:
    """The tables that an export does not carry, and why."""
    carried = {"vectors", "models"} if with_vectors else set()
    return {
        moved.table.name: moved.left_out for moved in TABLES if moved.record is None and moved.table.name not in carried
    }
