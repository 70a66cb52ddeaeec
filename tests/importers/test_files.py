"""Reading files in bounded memory: lines, JSON lines, arrays, archives."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path

import pytest

from engram import NothingToImport, NotOfFormat
from engram.importers import files
from engram.importers.items import Skipped


def source(folder: Path, text: str | bytes) -> files.Source:
    file = folder / "file"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return files.Source(file)


def items(found: files.Source, key: str | None = None) -> list[object]:
    return [each if isinstance(each, Skipped) else each[1] for each in files.json_items(found, key)]


def test_lines_are_read_with_their_numbers_and_empty_ones_left_out(tmp_path: Path) -> None:
    assert list(files.lines(source(tmp_path, "a\n\n  \nb\r\nc"))) == [(1, b"a"), (4, b"b\r"), (5, b"c")]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_an_array_is_cut_into_its_items_wherever_the_blocks_end(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", block)
    chance = random.Random(block)
    pieces = ['"', "\\", "[", "]", "{", "}", ",", "ü", "\n", "a", "\\u0041", "🎉"]
    values = [
        {"".join(chance.choices(pieces, k=5)): ["".join(chance.choices(pieces, k=9)), {"x": [1, None]}]}
        for _ in range(20)
    ]
    for ensure_ascii in (True, False):
        text = json.dumps(values, ensure_ascii=ensure_ascii)
        assert items(source(tmp_path, text)) == values
        inside = json.dumps({"not": "this", "list": values, "more": [1]}, ensure_ascii=ensure_ascii)
        assert items(source(tmp_path, inside), "list") == values


def test_an_array_under_another_name_or_level_is_not_taken(tmp_path: Path) -> None:
    assert items(source(tmp_path, '{"a": {"list": [1]}, "other": [2]}'), "list") == []
    assert items(source(tmp_path, "[]")) == []


def test_a_cut_off_array_gives_its_whole_items_and_names_the_last(tmp_path: Path) -> None:
    assert items(source(tmp_path, '[{"a": 1}, {"a": ')) == [{"a": 1}, Skipped("item 2", "not valid JSON")]


@pytest.mark.requirement("IMPORT-8")
def test_a_line_or_item_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST", 50)
    monkeypatch.setattr(files, "_BLOCK", 16)
    long = json.dumps({"a": "x" * 100})
    found = list(files.json_lines(source(tmp_path, f'{{"b": 1}}\n{long}\n{{"c": 2}}\n')))
    assert found == [(1, {"b": 1}), Skipped("line 2", "longer than 0 MiB"), (3, {"c": 2})]
    assert items(source(tmp_path, f'[1, {long}, "z"]')) == [1, Skipped("item 2", "longer than 0 MiB"), "z"]


@pytest.mark.requirement("IMPORT-8")
def test_bad_lines_are_named_with_their_reason(tmp_path: Path) -> None:
    text = b'{"a": 1}\n{"a": \n\xff\xfe\n42\n' + b"[" * 100_000 + b"\n" + b'{"b":' * 100_000 + b"\n"
    assert list(files.json_lines(source(tmp_path, text))) == [
        (1, {"a": 1}),
        Skipped("line 2", "not valid JSON"),
        Skipped("line 3", "not valid UTF-8"),
        Skipped("line 4", "not a JSON object"),
        Skipped("line 5", "nested too deeply"),
        Skipped("line 6", "nested too deeply"),
    ]


def test_a_member_of_an_archive_is_read_where_it_is_whatever_its_name(tmp_path: Path) -> None:
    archive = tmp_path / "in" / "export.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../climbs/out.json", "[1, 2]")
        file.writestr("/absolute.json", "[3]")
    found = files.members(archive)
    assert [items(each) for each in found] == [[1, 2], [3]]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["export.zip", "in"]


@pytest.mark.requirement("IMPORT-8")
def test_an_archive_that_unpacks_to_far_more_than_text_does_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("conversations.json", "0" * (65 * 1024 * 1024))
    with pytest.raises(NotOfFormat, match="would unpack"):
        files.members(archive)


@pytest.mark.requirement("IMPORT-8")
def test_a_bomb_of_several_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BOMB_SIZE", 1_000_000)
    archive = tmp_path / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(4):
            file.writestr(f"conversations-{number}.json", "0" * 300_000)
        file.writestr("filler", random.Random(1).randbytes(100_000))
    with pytest.raises(NotOfFormat, match=r"would unpack .*'conversations-2.json', …"):
        files.members(archive)


@pytest.mark.requirement("IMPORT-8")
def test_a_text_of_very_many_parts_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_PARTS", 1_000)
    many = json.dumps({"a": [{}] * 600})
    found = list(files.json_lines(source(tmp_path, f'{{"b": 1}}\n{many}\n{{"c": "{"x" * 5_000}"}}\n')))
    assert found == [(1, {"b": 1}), Skipped("line 2", "too many parts"), (3, {"c": "x" * 5_000})]
    assert items(source(tmp_path, f"[1, {many}, 2]")) == [1, Skipped("item 2", "too many parts"), 2]
    assert files.LONGEST <= 16 * 1024 * 1024


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToImport, match="no file or folder"):
        files.Source(tmp_path / "missing")
    with pytest.raises(NotOfFormat, match="not a regular file"):
        files.Source(tmp_path)
    with pytest.raises(NotOfFormat, match="not a zip archive"):
        files.members(source(tmp_path, "text").path)


def test_a_whole_file_is_read_unless_it_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = source(tmp_path, "0123456789")
    assert files.whole(found) == b"0123456789"
    assert found.position == found.size == 10
    monkeypatch.setattr(files, "LONGEST", 9)
    assert files.whole(found) is None


def test_a_damaged_member_of_an_archive_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.json", "[1, 2, 3]")
    archive.write_bytes(archive.read_bytes().replace(b"[1, 2, 3]", b"[1, 2, 4]"))
    (member,) = files.members(archive)
    with pytest.raises(NotOfFormat, match=r"export\.zip:a\.json is damaged"):
        list(files.json_items(member))


def test_a_member_with_an_unusual_compression_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("a.json", "[1]")
    (member,) = files.members(tmp_path / "export.zip")
    with pytest.raises(NotOfFormat, match="unpack it first"):
        member.head()


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    found = source(tmp_path, "text")
    found.path.unlink()
    with pytest.raises(NothingToImport, match="file cannot be read: No such file"):
        found.head()
