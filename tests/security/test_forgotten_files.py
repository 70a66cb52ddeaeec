"""Forgotten text is nowhere in SQLite's files: no word of it, nor the beginning or the end of a word.

Every text consists of random words, so anything that is found of a word comes from that text. The tests search for the
first and the last letters of each word: if SQLite has split a word, one half is still recognised.
"""

from __future__ import annotations

import logging
import random
import re
import string
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engram import Engram
from engram.config import load
from engram.storage import scrub
from tests.stress._processes import Crew, Parent

#: Letters of a word, and of the part by which it is recognised: of two halves one is always long enough.
WORD, PART = 20, 9
#: How many words a text has: a line, a paragraph, and several that need pages beyond the one their row is on.
LENGTHS = (2, 2, 5, 5, 30, 30, 100, 300)


class Speech:
    """Texts of words that occur nowhere else."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self) -> str:
        return "".join(self._random.choices(string.ascii_lowercase, k=WORD))

    def text(self) -> str:
        return " ".join(self.word() for _ in range(self._random.choice(LENGTHS)))

    def some(self, things: Iterable[int], count: int) -> list[int]:
        return self._random.sample(list(things), count)


class Said:
    """A store full of texts, and which words each of its things is made of."""

    def __init__(self, eng: Engram, speech: Speech, size: int) -> None:
        self.exchanges: dict[int, str] = {}
        self.memories: dict[int, str] = {}
        self.sessions: dict[str, str] = {}
        self.blocks: dict[str, str] = {}
        for number in range(5):
            name = f"s{number}"
            eng.sessions.ensure(name)
            texts = [speech.text() for _ in range(size // 5)]
            roles = ["user", "assistant", "log"] * len(texts)
            eng.exchanges.add_many(
                {"session_id": name, "role": role, "content": text} for role, text in zip(roles, texts, strict=False)
            )
            self.sessions[name] = " ".join(texts)
            self.exchanges.update({each.id: each.content for each in eng.exchanges.history(name)})
            self.exchanges.update({each.id: each.content for each in eng.sessions.logs(name, 0)})
        for _ in range(size // 5):
            self._remember(eng, speech)
        for name in ("plan", "notes"):
            self._edit_block(eng, speech, name)

    def _remember(self, eng: Engram, speech: Speech) -> None:
        """A memory that was edited, and had another length each time."""
        words = [speech.word() for _ in range(5)]
        tag, key, value, reason, relation = words
        first, then = speech.text(), speech.text()
        with eng.write():
            made = eng.remember(first, tags=[tag], key=key, data={"a": value})
            eng.memories.update(made.id, then, reason=reason)
            if self.memories:
                eng.memories.link(made.id, min(self.memories), relation)
        self.memories[made.id] = " ".join([*words, first, then])

    def _edit_block(self, eng: Engram, speech: Speech, name: str) -> None:
        texts = [speech.text() for _ in range(12)]
        eng.blocks.create(name, texts[0])
        for text in texts[1:]:
            eng.blocks.update(name, text, reason=text.split()[0])
        self.blocks[name] = " ".join(texts)


def parts_in(store: str) -> set[bytes]:
    """Every run of so many letters in the store's files."""
    # By another process: closing a file here would drop the locks that this one's connections have on it.
    files = sorted(Path(store).parent.iterdir())
    raw = subprocess.run(["cat", *files], stdout=subprocess.PIPE, check=True).stdout
    runs = re.findall(rb"[a-z]{%d,}" % PART, raw)
    return {run[start : start + PART] for run in runs for start in range(len(run) - PART + 1)}


def seen(text: str, parts: set[bytes]) -> list[str]:
    """The words of a text that are still partly in the files."""
    return [word for word in text.split() if {word[:PART].encode(), word[-PART:].encode()} & parts]


def check_sound(store: str) -> None:
    with closing(apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def opened(sqlite_url: str) -> Iterator[Callable[..., Engram]]:
    """Opens the store; with words alone unless told otherwise."""
    engs: list[Engram] = []

    def open_it(embedder: str = "none", busy_timeout: float = 30.0) -> Engram:
        engs.append(Engram(settings=load(url=sqlite_url, embedder=embedder, busy_timeout=busy_timeout)))
        return engs[-1]

    yield open_it
    for eng in engs:
        eng.close()


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.end()


@pytest.mark.requirement("FORGET-13")
@pytest.mark.parametrize(("embedder", "size"), [("none", 400), ("static", 60)])
def test_no_part_of_a_forgotten_word_is_in_the_files(
    sqlite_url: str, opened: Callable[..., Engram], embedder: str, size: int
) -> None:
    eng, speech = opened(embedder), Speech(size)
    said = Said(eng, speech, size)
    lone = [id for id, text in said.exchanges.items() if text not in said.sessions["s0"]]
    exchanges = speech.some(lone, size // 10)
    memories = speech.some(said.memories, size // 20)
    gone = [said.exchanges.pop(id) for id in exchanges] + [said.memories.pop(id) for id in memories]
    gone += [said.sessions["s0"], said.blocks.pop("plan")]
    before = parts_in(sqlite_url)
    assert all(seen(text, before) for text in gone)
    for id in exchanges:
        eng.forget(exchange=id)
    for id in memories:
        eng.forget(memory=id)
    eng.forget(session="s0")
    eng.forget(block="plan")
    parts = parts_in(sqlite_url)
    assert [word for text in gone for word in seen(text, parts)] == []
    # The search finds remaining text, so it works.
    stays = [text for id, text in said.exchanges.items() if id in lone]
    stays += [*said.memories.values(), *said.blocks.values()]
    assert all(seen(text, parts) for text in stays)
    check_sound(sqlite_url)
    eng.close()
    parts = parts_in(sqlite_url)
    assert [word for text in gone for word in seen(text, parts)] == []


def keep_writing(parent: Parent, url: str) -> int:
    """Read everything and rewrite everything until told to end: once while others forget, once afterwards."""
    rounds = 0
    with Engram(settings=load(url=url, embedder="none")) as eng:
        speech = Speech(-1)
        for session in eng.sessions.list():
            eng.exchanges.history(session.id)
        mine = [eng.remember(speech.text()).id for _ in range(20)]
        parent.tell("ready")
        for _ in range(2):
            while not parent.has_called() or rounds < 20:
                eng.exchanges.add("s4", "user", speech.text())
                eng.memories.update(mine[rounds % len(mine)], speech.text())
                eng.memories.list()
                rounds += 1
            parent.wait()
            parent.tell(rounds)
    return rounds


@pytest.mark.requirement("FORGET-13")
def test_no_part_is_in_the_files_while_or_after_another_process_writes(
    sqlite_url: str, opened: Callable[..., Engram], crew: Crew
) -> None:
    eng, speech = opened(), Speech(7)
    said = Said(eng, speech, 200)
    other = crew.start(keep_writing, sqlite_url)
    other.hear()
    gone: list[str] = []
    for id in speech.some(said.exchanges, 20):
        eng.forget(exchange=id)
        gone.append(said.exchanges[id])
    for id in speech.some(said.memories, 10):
        eng.forget(memory=id)
        gone.append(said.memories[id])
    parts = parts_in(sqlite_url)
    assert [word for text in gone for word in seen(text, parts)] == []
    other.call()
    first = other.hear()
    other.call()
    assert isinstance(first, int) and other.result() >= first >= 20
    parts = parts_in(sqlite_url)
    assert [word for text in gone for word in seen(text, parts)] == []
    check_sound(sqlite_url)


def plant(path: str, page_size: int, trace: bytes) -> None:
    """Leave a trace in the unused middle of every page that has room for it, as moving rows does now and then."""
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
    raw = file.xRead(file.xFileSize(), 0)
    for place in range(0, len(raw), page_size):
        first, end = scrub._unused_space(raw, place, page_size, place)
        if end - first > 20 * len(trace):
            file.xWrite(trace, (first + end) // 2)
    file.xClose()


@pytest.mark.requirement("FORGET-13")
def test_a_process_that_read_before_the_cleaning_does_not_write_old_bytes_back(
    sqlite_url: str, opened: Callable[..., Engram], monkeypatch: pytest.MonkeyPatch
) -> None:
    eng, other, speech = opened(), opened(), Speech(4)
    said = Said(eng, speech, 20)
    trace, clean = speech.word(), scrub._clean

    def read_first(path: str, page_size: int) -> None:
        plant(path, page_size, trace.encode())
        assert seen(trace, parts_in(path))
        with other._view.engine.read() as tx:
            tx.all("SELECT term FROM terms ORDER BY workspace, shelf, term")
        clean(path, page_size)

    monkeypatch.setattr(scrub, "_clean", read_first)
    eng.forget(exchange=min(said.exchanges))
    assert seen(trace, parts_in(sqlite_url)) == []
    other.exchanges.add("s4", "user", " ".join(speech.word() for _ in range(50)))
    assert seen(trace, parts_in(sqlite_url)) == []
    check_sound(sqlite_url)


@pytest.mark.requirement("FORGET-14")
def test_files_that_cannot_be_cleaned_are_reported_and_cleaned_by_the_next_forgetting(
    sqlite_url: str, opened: Callable[..., Engram], caplog: pytest.LogCaptureFixture
) -> None:
    eng, reader, speech = opened(busy_timeout=0.2), opened(), Speech(9)
    said = Said(eng, speech, 20)
    first, second, *_ = said.exchanges
    with reader._view.engine.read() as tx, caplog.at_level(logging.WARNING, "engram.storage"):
        # A transaction sees the store as it was when it first read.
        tx.all("SELECT COUNT(*) FROM exchanges")
        eng.forget(exchange=first)
        assert "may still contain bytes" in caplog.text
        assert seen(said.exchanges[first], parts_in(sqlite_url))
    caplog.clear()
    eng.forget(exchange=second)
    assert caplog.text == ""
    parts = parts_in(sqlite_url)
    assert seen(said.exchanges[first], parts) + seen(said.exchanges[second], parts) == []
