"""Where an export goes: what it replaces, and what killed exports have left there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engram import Engram, FileExists, InvalidInput
from engram.config import load
from engram.maintenance import backup, copy, encrypt
from engram.storage import helper_names
from engram.transfer.page_folder import MARKER
from tests.transfer._processes import dead


@pytest.mark.requirement("MOVE-8")
def test_an_export_replaces_only_an_earlier_export(sqlite_url: str, tmp_path: Path) -> None:
    settings = load(url=sqlite_url)
    with Engram(settings=settings) as eng:
        eng.remember("The lift is broken.")
    key = encrypt(settings).keys
    kept = backup(settings, str(tmp_path / "backup.db"))
    text, empty, pipe = tmp_path / "notes.txt", tmp_path / "empty", tmp_path / "pipe"
    text.write_text('{"record":"header","format":"another","version":1}\n')
    empty.touch()
    os.mkfifo(pipe)
    others = [Path(sqlite_url), Path(kept.file), Path(key), text, empty, pipe]
    with Engram(settings=settings) as eng:
        eng.remember("The door is open.")
        for place in others:
            before = place.stat()
            with pytest.raises(FileExists, match="not an earlier export"):
                eng.export(place, force=True)
            assert os.path.samestat(before, place.stat()) and place.stat().st_size == before.st_size, place
        eng.remember("The store is used as before.")
        file = tmp_path / "a.jsonl"
        eng.export(file)
        first = file.read_bytes()
        eng.remember("Another plan.")
        eng.export(file, force=True)
        assert file.read_bytes() != first
    with Engram(settings=settings) as eng:
        assert len(eng.memories.list()) == 4


@pytest.mark.requirement("MOVE-8")
def test_a_symbolic_link_stays_and_its_target_is_replaced(sqlite_url: str, tmp_path: Path) -> None:
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        for format, name in (("jsonl", "real.jsonl"), ("markdown", "real")):
            (tmp_path / "elsewhere").mkdir(exist_ok=True)
            real, link = tmp_path / "elsewhere" / name, tmp_path / f"link-{format}"
            eng.export(real, format=format)
            before = real.stat()
            link.symlink_to(real)
            with pytest.raises(FileExists):
                eng.export(link, format=format)
            assert eng.export(link, format=format, force=True).place == str(link)
            assert link.is_symlink() and link.resolve() == real
            assert not os.path.samestat(before, real.stat())
        assert sorted(os.listdir(tmp_path / "elsewhere")) == ["real", "real.jsonl"]


@pytest.mark.requirement("MOVE-8")
def test_what_killed_exports_have_left_is_removed_by_the_next_one(sqlite_url: str, tmp_path: Path) -> None:
    folder, gone, alive = tmp_path / "out", dead(), os.getppid()
    folder.mkdir()
    kept = {f"a.jsonl.{alive}.partial", "a.jsonl.x.partial", f"b.jsonl.{gone}.partial", f"a.jsonl.{gone}.partial.txt"}
    for name in {*kept, f"a.jsonl.{gone}.partial"}:
        (folder / name).write_text("A secret plan.")
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        eng.export(folder / "a.jsonl")
    assert set(os.listdir(folder)) == {"a.jsonl", *kept}


@pytest.mark.requirement("MOVE-8", "MOVE-12")
def test_folders_that_killed_exports_have_left_are_removed_by_the_next_one(sqlite_url: str, tmp_path: Path) -> None:
    folder, gone, alive = tmp_path / "out", dead(), os.getppid()
    ours = [f"pages.{gone}.partial", f"pages.{gone}.replaced"]
    kept = {f"pages.{alive}.partial", f"other.{gone}.replaced", "pages.x.replaced"}
    for name in (*ours, *kept):
        (folder / name).mkdir(parents=True)
        (folder / name / MARKER).touch()
    own = folder / f"pages.{gone + 4_000_000}.partial"
    own.mkdir()
    (own / "precious.txt").write_text("mine")
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        eng.export(folder / "pages", format="markdown")
    assert set(os.listdir(folder)) == {"pages", own.name, *kept}
    assert (own / "precious.txt").read_text() == "mine"


@pytest.mark.requirement("MOVE-8", "MOVE-12")
def test_a_folder_of_pages_with_a_file_of_the_user_is_not_replaced(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        eng.export(folder, format="markdown")
        pages = {path for path in folder.rglob("*") if path.is_file()}
        (folder / "default" / "sub").mkdir(exist_ok=True)
        for name in ("mine.txt", "notes.md", "default/sub/notes.md", "engram.db", "b\udcffd"):
            (folder / name).write_text("mine")
            with pytest.raises(FileExists, match="did not write"):
                eng.export(folder, format="markdown", force=True)
            assert (folder / name).read_text() == "mine" and all(map(Path.is_file, pages))
            (folder / name).unlink()
        (folder / "elsewhere").symlink_to(tmp_path)
        with pytest.raises(FileExists, match="elsewhere"):
            eng.export(folder, format="markdown", force=True)
        (folder / "elsewhere").unlink()
        eng.export(folder, format="markdown", force=True)
        assert len(eng.memories.list()) == 1
    assert not list(tmp_path.glob("pages.*"))


@pytest.mark.requirement("MOVE-8", "MOVE-12")
def test_a_list_of_files_outside_of_the_folder_removes_none_of_them(sqlite_url: str, tmp_path: Path) -> None:
    folder, mine = tmp_path / "pages", tmp_path / "mine.txt"
    mine.write_text("mine")
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        eng.export(folder, format="markdown")
        with open(folder / MARKER, "a", encoding="utf-8") as marker:
            marker.write(f"../mine.txt\n{mine}\n")
        eng.export(folder, format="markdown", force=True)
    assert mine.read_text() == "mine"


@pytest.mark.requirement("MOVE-8", "MOVE-12")
def test_what_is_put_into_a_folder_while_it_is_replaced_stays(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        eng.export(folder, format="markdown")

        def add(done: int, total: int) -> None:
            (folder / "mine.txt").write_text("mine")

        eng.export(folder, format="markdown", force=True, progress=add)
    (old,) = tmp_path.glob("pages.*.replaced")
    assert [path.read_text() for path in old.rglob("*")] == ["mine"]


@pytest.mark.requirement("MOVE-8", "MOVE-12")
def test_a_draft_of_pages_is_known_as_one_from_its_beginning(sqlite_url: str, tmp_path: Path) -> None:
    drafts: list[Path] = []

    def look(done: int, total: int) -> None:
        drafts.extend(tmp_path.glob(f"out/pages.*.partial/{MARKER}"))

    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        (tmp_path / "out").mkdir()
        eng.export(tmp_path / "out" / "pages", format="markdown", progress=look)
    assert drafts


@pytest.mark.requirement("MOVE-8", "MOVE-12")
def test_all_pages_are_on_the_disk_before_the_folder_gets_its_name(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, safe, folder = os.fsync, set(), tmp_path / "out" / "pages"

    def watched(descriptor: int) -> None:
        if not folder.exists():
            safe.add(os.fstat(descriptor).st_ino)
        wait(descriptor)

    (tmp_path / "out").mkdir()
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        monkeypatch.setattr(os, "fsync", watched)
        eng.export(folder, format="markdown")
    assert {path.stat().st_ino for path in (folder, *folder.rglob("*"))} <= safe


@pytest.mark.requirement("MOVE-8", "MOVE-11")
def test_nothing_is_written_under_a_name_that_a_store_uses_for_its_files(sqlite_url: str, tmp_path: Path) -> None:
    ends = ("-wal", "-shm", "-journal", ".backups", ".copying", ".next", ".replaced", ".7.partial")
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        for end in (*ends, ".before-0002-20261115t183608123456"):
            for store in (sqlite_url, str(tmp_path / "other.db")):
                place = f"{store}{end}"
                for format in ("jsonl", "markdown"):
                    with pytest.raises(InvalidInput, match="files of the store"):
                        eng.export(place, format=format, force=True)
                with pytest.raises(InvalidInput, match="files of the store"):
                    copy(load(url=sqlite_url), load(url=place))
        (tmp_path / "link").symlink_to(f"{sqlite_url}-journal")
        with pytest.raises(InvalidInput, match="files of the store"):
            eng.export(tmp_path / "link", force=True)
        eng.remember("It is as before.")
        assert len(eng.memories.list()) == 2
    assert not list(tmp_path.glob("other.db*"))


@pytest.mark.requirement("MOVE-8")
def test_names_of_helper_files_tell_their_store() -> None:
    assert helper_names.store_of("/a/x.db-wal") == "/a/x.db"
    assert helper_names.store_of("/a/x.db.copying-wal") == "/a/x.db.copying"
    for name in ("/a-wal/x", "/a/-wal", "/a/.backups", "/a/backups", "/a/x.db", "/a/x.db-wal.jsonl", "/a/x.partial.md"):
        assert helper_names.store_of(name) is None, name


@pytest.mark.requirement("MOVE-8")
def test_a_name_that_is_too_long_is_said(sqlite_url: str, tmp_path: Path) -> None:
    with Engram(sqlite_url) as eng:
        eng.remember("The lift is broken.")
        for length in (250, 300):
            for format in ("jsonl", "markdown"):
                with pytest.raises(InvalidInput, match="too long"):
                    eng.export(tmp_path / ("x" * length), format=format)
