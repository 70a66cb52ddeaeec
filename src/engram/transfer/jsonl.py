"""The lines of an exported file: JSON objects, one to a line.

The first line is the header. The records of each kind follow together, and each kind ends with a line that has their
number and a hash of their lines. The last line has a hash of everything after the header. So a file that was cut off
or changed is recognised, with the lines where it happened. docs/moving-out.md describes the format.

A column that is NULL is left out. Texts are written as they are, except characters that could control a terminal,
which JSON can write as numbers.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .. import checks
from .._version import VERSION
from ..errors import ExportDamaged, InvalidInput, NotOfFormat
from ..safe_text import HARMFUL
from . import column_values

if TYPE_CHECKING:
    from ..storage.engine import Row
    from ..storage.rows import Table

FORMAT = "engram-export"
#: A program reads files of this version and of earlier ones.
FORMAT_VERSION = 1
#: Longer lines are not read. A text has at most a million characters, written as up to 14 bytes each in a snapshot of a
#: memory, which has a few texts. Hostile JSON takes 25 times its length in memory.
_LONGEST = 64 * 1024 * 1024
#: Characters that are written as numbers. JSON itself does so for those below the space.
_ESCAPES = {code: json.dumps(chr(code))[1:-1] for code in (*HARMFUL, 0x7F) if code >= 0x7F}
_ESCAPES[0x7F] = "\\u007f"
#: How every exported file begins.
START = f'{{"record":"header","format":"{FORMAT}",'.encode()


class Header(NamedTuple):
    version: int
    #: The version of Engram that wrote the file, and when it did.
    engram: str
    made_at: str
    #: The workspaces in the file.
    workspaces: tuple[str, ...]
    #: Whether the file has vectors.
    vectors: bool
    #: The last number of the change feed.
    changes: int


class Line(NamedTuple):
    number: int
    record: str
    values: dict[str, Any]


class Writer:
    """Writes the lines of one export."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._all = hashlib.sha256()
        self._section = hashlib.sha256()
        self._count = 0
        self.bytes = 0

    def header(self, header: Header) -> None:
        values = {"record": "header", "format": FORMAT, **header._asdict(), "workspaces": list(header.workspaces)}
        self._write(_line(values))

    def record(self, record: str, values: dict[str, Any]) -> None:
        line = _line({"record": record, **values})
        self._section.update(line)
        self._all.update(line)
        self._count += 1
        self._write(line)

    def end(self, record: str) -> int:
        """End the records of a kind. Returns how many there were."""
        count = self._count
        line = _line({"record": "end", "of": record, "count": count, "sha256": self._section.hexdigest()})
        self._section, self._count = hashlib.sha256(), 0
        self._all.update(line)
        self._write(line)
        return count

    def footer(self) -> None:
        self._write(_line({"record": "footer", "sha256": self._all.hexdigest()}))

    def _write(self, line: bytes) -> None:
        self.bytes += len(line)
        self._file.write(line)


class Reader:
    """Reads the lines of an exported file and checks that they are complete and unchanged."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self.name = name
        self.number = 0
        self._all = hashlib.sha256()
        self.bytes = 0
        self.header = self._header()

    def __iter__(self) -> Iterator[Line]:
        """The records, and the line that ends each kind. Raises ExportDamaged at the first line that is wrong."""
        section, count, first, open_record = hashlib.sha256(), 0, self.number + 1, ""
        while True:
            raw = self._next()
            line = self._parse(raw)
            if line.record == "footer":
                if count:
                    raise self.damaged("the file ends within the records of one kind")
                self._require(line, "sha256", self._all.hexdigest(), "the lines after the header")
                if self._file.read(1):
                    raise self.damaged("there is something after the last line")
                return
            if line.record == "end":
                where = f"lines {first} to {line.number - 1} ({line.values.get('of')})"
                if count and line.values.get("of") != open_record:
                    raise self.damaged(f"the records of the kind {open_record!r} do not end")
                self._require(line, "count", count, where)
                self._require(line, "sha256", section.hexdigest(), where)
                section, count, first, open_record = hashlib.sha256(), 0, line.number + 1, ""
                self._all.update(raw)
                yield line
                continue
            if count and line.record != open_record:
                raise self.damaged(f"a record of the kind {line.record!r} is among those of the kind {open_record!r}")
            section.update(raw)
            self._all.update(raw)
            count, open_record = count + 1, line.record
            yield line

    def damaged(self, why: str, line: int | None = None) -> ExportDamaged:
        number = self.number if line is None else line
        return ExportDamaged(
            f"{self.name}, line {number}: {why}. Nothing was imported. Export again, or use another copy of the file.",
            number,
        )

    def _require(self, line: Line, name: str, found: object, where: str) -> None:
        if line.values.get(name) != found:
            raise self.damaged(f"{where}: not as exported, something was changed, added or removed")

    def _header(self) -> Header:
        try:
            values = self._parse(self._next()).values
        except ExportDamaged as error:
            raise NotOfFormat(f"{self.name} is not an export of Engram: its first line is no header.") from error
        if values.get("format") != FORMAT:
            raise NotOfFormat(f"{self.name} is not an export of Engram: its first line is no header.")
        version, names = values.get("version"), values.get("workspaces")
        if not isinstance(version, int) or version < 1:
            raise self.damaged("the header has no version")
        if version > FORMAT_VERSION:
            raise NotOfFormat(
                f"{self.name} has version {version} of the format, and this Engram ({VERSION}) reads up to "
                f"{FORMAT_VERSION}. Import it with the Engram that wrote it ({values.get('engram')!r}), or a later one."
            )
        if not isinstance(names, list):
            raise self.damaged("the header names no workspaces")
        try:
            workspaces = tuple(checks.workspace(name) for name in names)
        except InvalidInput as error:
            raise self.damaged(f"the header names a workspace that cannot exist ({error})") from error
        made, changes = str(values.get("made_at")), values.get("changes")
        if not column_values.is_number(changes):
            raise self.damaged("the header does not say how far the change feed goes")
        return Header(version, str(values.get("engram")), made, workspaces, values.get("vectors") is True, changes)

    def _next(self) -> bytes:
        self.number += 1
        raw = self._file.readline(_LONGEST)
        self.bytes += len(raw)
        if not raw.endswith(b"\n"):
            if len(raw) == _LONGEST:
                raise self.damaged("the line is too long")
            raise self.damaged("the line is cut off" if raw else "the file ends before its last line")
        return raw

    def _parse(self, raw: bytes) -> Line:
        try:
            values = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"this is not JSON in UTF-8 ({type(error).__name__})") from error
        except MemoryError as error:
            raise self.damaged("the line takes more memory than there is") from error
        if not isinstance(values, dict) or not isinstance(values.get("record"), str):
            raise self.damaged("this is not an object with a 'record'")
        return Line(self.number, values.pop("record"), values)


def values_of(table: Table, row: Row) -> dict[str, Any]:
    """A row as the values of a record."""
    return {
        name: b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in zip(table.names, row, strict=True)
        if value is not None
    }


def row_of(table: Table, line: Line, reader: Reader) -> Row:
    """The values of a record as a row. Raises ExportDamaged if one is missing, unknown or cannot be there."""
    values = line.values
    unknown = values.keys() - set(table.names)
    if unknown:
        raise reader.damaged(f"{line.record!r} has an unknown value {min(unknown)!r}", line.number)
    row = []
    for column in table.columns:
        value = values.get(column.name)
        if value is None:
            if not column.nullable:
                raise reader.damaged(f"{line.record!r} has no {column.name!r}", line.number)
        elif problem := column_values.check_of(column)(value):
            raise reader.damaged(f"{column.name!r} {problem}", line.number)
        elif column.type is bytes:
            value = decoded(value, reader, line)
        elif column.type is float:
            value = float(value)
        row.append(value)
    return tuple(row)


def decoded(value: str, reader: Reader, line: Line) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (NotBase64, ValueError) as error:
        raise reader.damaged("a value is not base64", line.number) from error


def _line(values: dict[str, Any]) -> bytes:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    if not text.isascii() or "\x7f" in text:
        text = text.translate(_ESCAPES)
    return text.encode() + b"\n"
