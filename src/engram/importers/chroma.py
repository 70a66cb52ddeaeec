"""Reads the texts and metadata of a local Chroma database, which several systems keep their memories in.

The vectors are in files of their own, in a form that only Chroma's library reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .foreign import Record
from .items import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .foreign import ForeignDatabase

#: The key of a document's text.
TEXT = "chroma:document"


class Document(NamedTuple):
    where: str
    id: object
    #: The text, and the metadata by their keys.
    text: object
    metadata: dict[str, object]


def documents(db: ForeignDatabase) -> Iterator[Document | Skipped]:
    """The documents of all collections, in the order they were added."""
    db.expect("embeddings")
    values = db.grouped("embedding_metadata", "id")
    yield from values.build()
    for record in db.records("embeddings", "embedding_id"):
        if isinstance(record, Skipped):
            yield record
            continue
        metadata = dict(
            _pair(pair)
            for pair in values.of(str(record.number), "key", "string_value", "int_value", "float_value", "bool_value")
            if isinstance(pair, Record)
        )
        yield Document(record.where, record.values["embedding_id"], metadata.pop(TEXT, None), metadata)


def _pair(record: Record) -> tuple[str, object]:
    row = record.values
    if row["bool_value"] is not None:
        return str(row["key"]), bool(row["bool_value"])
    values = (row[column] for column in ("string_value", "int_value", "float_value"))
    return str(row["key"]), next((value for value in values if value is not None), None)
