"""Reads files in bounded memory: lines, JSON lines, the items of a JSON array, also inside a zip archive.

Everything here may be damaged or hostile. A line or an item that is too long is passed over without being held in
memory. JSON that is nested too deeply is refused by the parser. An archive is never unpacked to the disk, so the names
in it cannot lead anywhere, and one that claims to unpack to far more than texts do is refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
import zlib
from codecs import getincrementaldecoder
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from ..client import is_of_store
from ..errors import NothingToImport, NotOfFormat
from .items import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The longest line or item that is read, in bytes or characters.
LONGEST = 16 * 1024 * 1024
#: The most commas and opening brackets in a JSON text. Each may become an object that takes far more memory than text.
MOST_PARTS = 1_000_000
#: Members of an archive that unpack to more than this many times their size may not have more than this together.
_BOMB_SIZE, _BOMB_RATIO = 64 * 1024 * 1024, 100
_BLOCK = 1024 * 1024
#: How much is read to see whether a file has a format.
_LOOK = 256 * 1024
#: What the standard library raises for a damaged member: a wrong checksum, bad data, a cut end, a wrong name.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, KeyError, UnicodeDecodeError)
_IN_STRING, _OUTSIDE = re.compile(r'["\\]'), re.compile(r'["\[\]{},]')
#: From here on within the array to what matters next, past whole strings; deeper, commas do not matter. A string that
#: goes on in the next block is group 1, which may hold the beginning of an escape. Both match any text, so that no text
#: is searched twice.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|(\\?)\Z)'
_BETWEEN = re.compile(r'(?:[^"\[\]{},]++|' + _STRING + r")*+([\[\]{},]|\Z)", re.DOTALL)
_WITHIN = re.compile(r'(?:[^"\[\]{}]++|' + _STRING + r")*+([\[\]{}]|\Z)", re.DOTALL)


class Source:
    """One file to import, or one member of an archive."""

    def __init__(self, path: Path, member: str | None = None, size: int | None = None) -> None:
        self.path = path
        self.member = member
        self.size = _size(path) if size is None else size
        #: Members of the archive that have the same name and come before it. They are not read.
        self.replaced = 0
        #: How much of it was read, for the progress bar.
        self.position = 0

    @property
    def name(self) -> str:
        return self.path.name if self.member is None else f"{self.path.name}:{self.member}"

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The file for reading. Only `read` counts the position.

        Raises NothingToImport if it cannot be read, and NotOfFormat if it is a damaged member of an archive.
        """
        self.position = 0
        try:
            if is_of_store(str(self.path)):
                raise NotOfFormat(f"{self.name} is a store of Engram, or a file that SQLite has open; it is not read.")
            if self.member is None:
                with self.path.open("rb") as file:
                    yield file
                return
            with zipfile.ZipFile(self.path) as archive:
                if archive.getinfo(self.member).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise NotOfFormat(f"{self.name} is compressed in a way that exports are not; unpack it first.")
                with archive.open(self.member) as file:
                    yield file
        except OSError as error:
            raise NothingToImport(f"{self.name} cannot be read: {error.strerror or error}.") from error
        except _DAMAGE as error:
            raise NotOfFormat(f"{self.name} is damaged: {error}.") from error

    def head(self, length: int = _LOOK) -> bytes:
        """How the file begins."""
        with self.open() as file:
            return file.read(length)


class Line(NamedTuple):
    number: int
    #: None if the line is too long.
    data: bytes | None


def below(path: Path, *endings: str) -> list[Path]:
    """The file itself, or the files with one of these endings in a folder and its subfolders, sorted.

    Symbolic links to folders are not followed, so a folder that contains itself does no harm.
    """
    if not path.is_dir():
        return [path]
    found = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        found += [Path(folder, file) for file in sorted(files) if file.endswith(endings)]
    return [file for file in found if _is_regular(file)]


def members(path: Path) -> list[Source]:
    """The members of a zip archive, as sources. NotOfFormat if it is no archive or looks like a bomb."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise NotOfFormat(f"{path} is not a zip archive that can be read: {error}.") from error
    if any(info.flag_bits & 1 for info in infos):
        raise NotOfFormat(f"{path} is encrypted; unpack it first.")
    dense = [info for info in infos if info.file_size > _BOMB_RATIO * max(1, info.compress_size)]
    if (size := sum(info.file_size for info in dense)) > _BOMB_SIZE:
        packed = sum(info.compress_size for info in dense)
        names = ", ".join(repr(info.filename) for info in dense[:3])
        raise NotOfFormat(
            f"{path} would unpack from {packed:,} to {size:,} bytes: {names}{', …' if len(dense) > 3 else ''}. "
            "No text does that, so the archive was not read."
        )
    # Of members with one name, the last is the one that counts, as it does for programs that unpack them.
    found: dict[str, Source] = {}
    for info in infos:
        earlier = found.pop(info.filename, None)
        found[info.filename] = Source(path, info.filename, info.file_size)
        found[info.filename].replaced = 0 if earlier is None else earlier.replaced + 1
    return list(found.values())


def whole(source: Source) -> bytes | None:
    """All of a file; None if it is longer than `LONGEST`."""
    data = bytearray()
    for block in _blocks(source):
        data += block
        if len(data) > LONGEST:
            return None
    return bytes(data)


def lines(source: Source) -> Iterator[Line]:
    """The lines of a file without their ends; empty ones are left out."""
    number, held, too_long = 0, bytearray(), False
    for block in _blocks(source):
        first, *rest = block.split(b"\n")
        pieces = [first, *rest]
        for place, piece in enumerate(pieces):
            if not too_long:
                if len(held) + len(piece) > LONGEST:
                    held, too_long = bytearray(), True
                else:
                    held += piece
            if place == len(pieces) - 1:
                break  # this line goes on in the next block
            number += 1
            if too_long or held.strip():
                yield Line(number, None if too_long else bytes(held))
            held, too_long = bytearray(), False
    if too_long or held.strip():
        yield Line(number + 1, None if too_long else bytes(held))


def json_lines(source: Source) -> Iterator[tuple[int, dict[str, object]] | Skipped]:
    """The JSON objects of a file that has one on each line, with their line numbers."""
    for number, data in lines(source):
        if data is None:
            yield Skipped(f"line {number}", f"longer than {LONGEST // 1024 // 1024} MiB")
            continue
        found = parsed(data, f"line {number}")
        if isinstance(found, Skipped):
            yield found
        elif isinstance(found, dict):
            yield number, found
        else:
            yield Skipped(f"line {number}", "not a JSON object")


def parsed(data: bytes | str, where: str) -> object:
    """The value that a JSON text means, or what is wrong with it."""
    if len(data) > MOST_PARTS and _parts(data) > MOST_PARTS:
        return Skipped(where, "too many parts")
    try:
        # Given bytes, the parser would guess other encodings too.
        return json.loads(data.decode() if isinstance(data, bytes) else data)
    except UnicodeDecodeError:
        return Skipped(where, "not valid UTF-8")
    except ValueError:
        return Skipped(where, "not valid JSON")
    except RecursionError:
        return Skipped(where, "nested too deeply")


def _parts(data: bytes | str) -> int:
    if isinstance(data, bytes):
        return data.count(b",") + data.count(b"{") + data.count(b"[")
    return data.count(",") + data.count("{") + data.count("[")


def json_items(source: Source, key: str | None = None) -> Iterator[tuple[int, object] | Skipped]:
    """The items of a JSON array, with their numbers from 1, one at a time.

    The array is the document. With `key`, the document may also be an object that has the array under this name. The
    array is found at its first level only. Afterwards nothing is read.
    """
    number = 0
    for text in _items(source, key):
        number += 1
        where = f"item {number}"
        if text is None:
            yield Skipped(where, f"longer than {LONGEST // 1024 // 1024} MiB")
            continue
        found = parsed(text, where)
        yield found if isinstance(found, Skipped) else (number, found)


def _items(source: Source, key: str | None) -> Iterator[str | None]:
    """The texts of the array's items; None for one that is too long."""
    splitter = _Splitter(key)
    for text in _texts(source):
        yield from splitter.feed(text)
        if splitter.is_done:
            return
    yield from splitter.rest()


class _Splitter:
    """Cuts the text of a JSON document, given in pieces, into the items of its array.

    Only strings and brackets are looked at: they tell where an item ends. The parser then gets whole items.
    """

    def __init__(self, key: str | None) -> None:
        self.is_done = False
        self._key = key
        self._depth = 0
        #: The depth of the items; 0 until the array is found.
        self._level = 0
        self._in_string = False
        #: How many characters of the next piece belong to an escape.
        self._skip = 0
        self._held: list[str] = []
        self._size = 0
        #: The last string outside of the array: the name of the value that follows.
        self._name = ""

    def feed(self, text: str) -> Iterator[str | None]:
        at, begin = self._skip, 0
        self._skip = 0
        while at < len(text):
            mark, at = self._next(text, at)
            place = at - 1
            if not mark:
                break
            if mark == "\\":
                at += 1
            elif mark == '"':
                self._in_string = not self._in_string
                if not self._level:  # what is held is the name
                    if self._in_string:
                        self._clear()
                    else:
                        self._hold(text[begin:place])
                        self._name = "".join(self._held)
                    begin = at
            elif mark in "[{":
                self._depth += 1
                if not self._level and mark == "[" and self._is_wanted():
                    self._level = self._depth
                    self._clear()
                    begin = at
            elif self._depth == self._level and (mark == "," or mark in "]}"):
                self._hold(text[begin:place])
                yield from self.rest()
                begin = at
                if mark != ",":
                    self.is_done = True
                    return
            elif mark != ",":
                self._depth -= 1
        self._skip = max(0, at - len(text))
        self._hold(text[begin:])

    def _next(self, text: str, at: int) -> tuple[str, int]:
        """The next mark that matters, and the place after it. Without one, where the next piece goes on."""
        if self._in_string or not self._level:
            found = (_IN_STRING if self._in_string else _OUTSIDE).search(text, at)
            return (found[0], found.end()) if found else ("", len(text))
        passed = (_WITHIN if self._depth > self._level else _BETWEEN).match(text, at)
        assert passed is not None  # they match any text
        if passed[1] is not None:
            self._in_string = True
            return "", len(text) + len(passed[1])
        return passed[2], passed.end()

    def rest(self) -> Iterator[str | None]:
        """The item that is held, if there is one; also one that was cut off."""
        if self._level and self._size > LONGEST:
            yield None
        elif self._level and (text := "".join(self._held)).strip():
            yield text
        self._clear()

    def _is_wanted(self) -> bool:
        return self._depth == 1 or (self._depth == 2 and self._key is not None and self._name == self._key)

    def _hold(self, text: str) -> None:
        self._size += len(text)
        if self._size > LONGEST:
            self._held.clear()
        else:
            self._held.append(text)

    def _clear(self) -> None:
        self._held, self._size = [], 0


def _texts(source: Source) -> Iterator[str]:
    decode = getincrementaldecoder("utf-8-sig")(errors="replace").decode
    for block in _blocks(source):
        yield decode(block)


def _blocks(source: Source) -> Iterator[bytes]:
    with source.open() as file:
        while block := file.read(_BLOCK):
            source.position += len(block)
            yield block


def _size(path: Path) -> int:
    """The size of a regular file. Anything else cannot be imported."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise NothingToImport(f"There is no file or folder {path}.") from None
    except OSError as error:
        raise NothingToImport(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(found.st_mode):
        raise NotOfFormat(f"{path} is not a regular file.")
    return found.st_size


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
