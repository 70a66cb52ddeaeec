"""How fast memory is: writing turns, and finding them among a hundred thousand or a million.

The turns are synthetic. Each has 15 to 25 words: half are stop words, the others come from a made-up vocabulary with a
Zipf distribution, so some words are in a tenth of all turns and most are rare. A session has 50 turns. A question uses
five words of a turn. The seed is fixed, so the turns are the same everywhere.

**Writing.** *Engram* is `exchanges.add_many` with vectors. It is compared with the sum of three necessary parts: the
analyser, the embedder, and *bare inserts*, which are prepared `apsw` statements that write the same rows to a file with
the same schema, 500 turns per transaction like Engram. A single `add` is compared with the bare transaction alone.
Engram always runs first, because the bare side copies its rows. At the end the two files are compared.

**Finding.** *bare* is about the least work that could answer: one SQL statement that sums BM25 over the postings, with
given term ids and weights, and a dot product of a given vector with all 8-bit vectors in memory. It finds no adjacent
turns, reads no texts and embeds nothing. *reading all* reads every vector from the store for each question and compares
row by row, which is the obvious first version. *in bulk* compares all vectors at once after reading them, to show how
much that saves. The sides alternate with every question.

**Templated text.** Agents write from templates: tickets, decisions, tool reports. Each of these turns contains
"project", "use" and "ticket", and the questions do too. The same number of such turns goes into a second store, and the
two stores are asked in alternation. A third store has templated memories instead of turns.

**Starting.** `engram recall` as a new process, compared with a Python process that imports numpy and loads the
embedder. A new process has to load every vector first.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate, islice
from math import log
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import apsw
import numpy as np

from engram import Engram
from engram.config import load
from engram.embedding import Embedder
from engram.embedding import load as load_embedder
from engram.embedding.quantise import to_int8
from engram.language import STOP_WORDS
from engram.memory import analyser
from engram.storage import migrate

if TYPE_CHECKING:
    import numpy.typing as npt
    from bench import _measure as measure
    from bench.coordination import PRAGMAS
else:
    import _measure as measure
    from coordination import PRAGMAS

Row: TypeAlias = tuple[Any, ...]
Asked = TypeVar("Asked")

SEED, VOCABULARY = 20_260_214, 30_000
#: Flattens the head of the distribution: the most frequent content words of real talk are in about a tenth of turns.
HEAD = 10
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in ("a", "e", "i", "o", "u", "an", "or")]
TEMPLATES = (
    "why does the {part} in project {project} use {tool} ticket {ticket}",
    "decision for project {project}: the {part} will use {tool}, see ticket {ticket}",
    "tool report: tests of the {part} in project {project} passed, all use {tool}, ticket {ticket}",
    "ticket {ticket} in project {project} is done, the {part} does use {tool} now",
)
PER_SESSION, PER_TRANSACTION, CHUNK = 50, 500, 5_000
ADDS = 50
#: Rows that are multiplied at once. They fit into the processor's cache.
BLOCK = 512

#: The rows that a turn adds to the store, except its postings, which have no index by item.
_TABLES = {
    "exchanges": "SELECT * FROM exchanges WHERE id > ? ORDER BY id",
    "items": "SELECT * FROM items WHERE id > ? ORDER BY id",
    "terms": "SELECT * FROM terms WHERE id > ? ORDER BY id",
    "vectors": "SELECT item, model, vector FROM vectors WHERE item > ? ORDER BY item",
    "changes": "SELECT * FROM changes WHERE number > ? ORDER BY number",
}
_COPIED = ("sessions", "models", "shelves")
_SESSION = "UPDATE sessions SET last_seq = ?, turns = ?, heartbeat_at = ? WHERE workspace = ? AND id = ?"
_SHELF = "UPDATE shelves SET items = items + ?, length = length + ? WHERE workspace = 'default' AND shelf = 'turns'"
_POSTING = "INSERT INTO postings (term, item, tf, length) VALUES (?, ?, ?, ?)"
_BEST = """
WITH q (term, weight) AS (VALUES {slots})
SELECT p.item, SUM(q.weight * p.tf * 1.9 / (p.tf + 0.9 * (0.6 + 0.4 * p.length / ?))) AS score
FROM q JOIN postings p ON p.term = q.term GROUP BY p.item ORDER BY score DESC, p.item LIMIT 50
"""
_COMPARED = {
    "postings": "COUNT(*), SUM(term), SUM(item), SUM(tf), SUM(length)",
    "items": "COUNT(*), SUM(ref), SUM(length), SUM(turn)",
    "vectors": "COUNT(*), SUM(item), SUM(LENGTH(vector))",
    "exchanges": "COUNT(*), SUM(seq), SUM(LENGTH(content))",
    "terms": "COUNT(*), SUM(LENGTH(term))",
    "changes": "COUNT(*)",
    "shelves": "SUM(items), SUM(length)",
    "sessions": "COUNT(*), SUM(turns), SUM(last_seq)",
}

_LOADING = """
import numpy, sys
from engram.embedding import load
load("static").embed([sys.argv[1]])
"""
_MEMORY = """
import sys
from engram import Engram
with Engram(sys.argv[1]) as eng:
    for query in sys.argv[2:]:
        assert eng.recall(query)
# Not ru_maxrss, which includes the peak of the parent process.
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


class Speech:
    """An endless, reproducible supply of turns and questions. Each part has the same words and other turns."""

    def __init__(self, part: int = 0) -> None:
        self._random = random.Random(SEED)
        made: dict[str, None] = {}
        while len(made) < VOCABULARY:
            made["".join(self._random.choices(SYLLABLES, k=self._random.randint(2, 4)))] = None
        self._content = list(made)
        self._weights = list(accumulate(1 / (rank + HEAD) for rank in range(VOCABULARY)))
        self._plain = sorted(word for word in STOP_WORDS if word.isalpha())
        if part:
            self._random.seed(SEED + part)

    def turns(self) -> Iterator[str]:
        while True:
            count = self._random.randint(15, 25)
            said = self._random.choices(self._content, cum_weights=self._weights, k=count - count // 2)
            said += self._random.choices(self._plain, k=count // 2)
            self._random.shuffle(said)
            yield " ".join(said)

    def questions(self, turns: Sequence[str], count: int) -> list[str]:
        """Make questions, each from five words of a random turn."""
        asked: list[str] = []
        while len(asked) < count:
            content = [word for word in set(self._random.choice(turns).split()) if word not in STOP_WORDS]
            if len(content) >= 5:
                asked.append(f"what was that about {' '.join(self._random.sample(sorted(content), 5))}")
        return asked


class Tickets:
    """An endless, reproducible supply of turns that are made from templates, and questions about them."""

    def __init__(self) -> None:
        self._random = random.Random(SEED)
        names = ["".join(self._random.choices(SYLLABLES, k=3)) for _ in range(140)]
        self._parts, self._projects, self._tools = names[:60], names[60:90], names[90:]

    def turns(self) -> Iterator[str]:
        while True:
            yield self._filled(self._random.choice(TEMPLATES))

    def questions(self, turns: Sequence[str], count: int) -> list[str]:
        return [self._filled(TEMPLATES[0]) for _ in range(count)]

    def _filled(self, template: str) -> str:
        choose = self._random.choice
        ticket = self._random.randint(1, 50_000)
        return template.format(
            part=choose(self._parts), project=choose(self._projects), tool=choose(self._tools), ticket=ticket
        )


class Bare:
    """Writes the same rows as Engram with prepared statements on one open connection."""

    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.connection = apsw.Connection(path, statementcachesize=256)
        for pragma in (*PRAGMAS, "temp_store=MEMORY"):
            self.connection.execute(f"PRAGMA {pragma}")
        for migration in migrate.shipped("sqlite"):
            self.connection.execute(migration.sql)
        self._source = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READONLY)
        self._last = dict.fromkeys(_TABLES, 0)
        self._numbers: dict[str, int] = {}
        for table in _COPIED:
            self._insert(table, list(self._source.execute(f"SELECT * FROM {table}")))
        self.connection.execute("UPDATE shelves SET items = 0, length = 0")

    def fresh(self, counts: Sequence[Counter[str]]) -> list[list[tuple[str, list[Row]]]]:
        """The rows that Engram has written since the last call, as statements with values, one list per transaction."""
        rows = {table: list(self._source.execute(sql, (self._last[table],))) for table, sql in _TABLES.items()}
        self._last.update({table: found[-1][0] for table, found in rows.items() if found})
        self._numbers.update({term: number for number, _, _, term in rows["terms"]})
        # The feed entries of the sessions are not copied yet; they go into the first transaction.
        size = PER_TRANSACTION if len(counts) > ADDS else 1
        return [self._transaction(rows, counts, start, size) for start in range(0, len(counts), size)]

    def _transaction(
        self, rows: dict[str, list[Row]], counts: Sequence[Counter[str]], start: int, size: int
    ) -> list[tuple[str, list[Row]]]:
        exchanges = rows["exchanges"][start : start + size]
        items = rows["items"][start : start + size]
        some = counts[start : start + size]
        new = {self._numbers[term] for each in some for term in each}
        terms = [row for row in rows["terms"] if row[0] in new]
        rows["terms"] = [row for row in rows["terms"] if row[0] not in new]
        spare = len(rows["changes"]) - len(rows["exchanges"])
        changes = rows["changes"][spare + start : spare + start + size] if start else rows["changes"][: spare + size]
        postings = [
            (self._numbers[term], item[0], tf, each.total())
            for item, each in zip(items, some, strict=True)
            for term, tf in each.items()
        ]
        sessions = {row[2]: (row[3], row[8], row[6], row[1], row[2]) for row in exchanges}
        return [
            (_SESSION, list(sessions.values())),
            (_SHELF, [(len(items), sum(each.total() for each in some))]),
            *(
                (_insert(table, found[0]), found)
                for table, found in (("exchanges", exchanges), ("terms", terms))
                if found
            ),
            (_insert("items", items[0]), items),
            (_POSTING, postings),
            ("INSERT INTO vectors (item, model, vector) VALUES (?, ?, ?)", rows["vectors"][start : start + size]),
            (_insert("changes", changes[0]), changes),
        ]

    def write(self, transactions: Iterable[list[tuple[str, list[Row]]]]) -> None:
        connection = self.connection
        for statements in transactions:
            connection.execute("BEGIN IMMEDIATE")
            for sql, values in statements:
                connection.executemany(sql, values)
            connection.execute("COMMIT")

    def _insert(self, table: str, rows: list[Row]) -> None:
        self.connection.executemany(_insert(table, rows[0]), rows)

    def close(self) -> None:
        self._source.close()
        self.connection.close()


def _insert(table: str, row: Row) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})"


class Store:
    """A store and the turns that were written to it."""

    def __init__(self, path: str, count: int) -> None:
        self.path = path
        self.eng = Engram(settings=load(url=path))
        self.sessions = [self.eng.sessions.register("import", "made up") for _ in range(count // PER_SESSION + 1)]
        # The first turn sets the model and creates the shelf.
        self.eng.exchanges.add(self.sessions[-1], "user", "hello")
        self.turns: list[str] = []

    def add(self, turns: Sequence[str]) -> None:
        start = len(self.turns)
        self.eng.exchanges.add_many(
            {
                "session_id": self.sessions[(start + number) // PER_SESSION],
                "role": ("user", "assistant")[number % 2],
                "content": turn,
            }
            for number, turn in enumerate(turns)
        )
        self.turns += turns


def seconds(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


def embed(embedder: Embedder, turns: Sequence[str]) -> list[bytes]:
    made = []
    for start in range(0, len(turns), PER_TRANSACTION):
        rows = to_int8(embedder.embed(turns[start : start + PER_TRANSACTION]))
        made += [row.tobytes() for row in rows]
    return made


def analyse(turns: Sequence[str]) -> list[Counter[str]]:
    return [Counter(analyser.terms(turn)) for turn in turns]


def ingest(
    report: measure.Report, store: Store, bare: Bare, embedder: Embedder, turns: Iterator[str], size: int
) -> None:
    """Fill the store and the bare file, and compare the times."""
    results: dict[str, list[float]] = {name: [] for name in ("Engram", "analyser", "embedder", "bare inserts")}
    for _ in range(size // CHUNK):
        some = list(islice(turns, CHUNK))
        results["Engram"].append(seconds(partial(store.add, some)))
        counts = analyse(some)
        results["analyser"].append(seconds(partial(analyse, some)))
        results["embedder"].append(seconds(partial(embed, embedder, some)))
        fresh = bare.fresh(counts)
        results["bare inserts"].append(seconds(partial(bare.write, fresh)))
    needed = [sum(parts) for parts in zip(*list(results.values())[1:], strict=True)]
    rows = [(name, median(times) / CHUNK * 1e6, times[-1] / CHUNK * 1e6) for name, times in results.items()]
    report.table("writing many, µs a turn", ("", "median", "at the end"), rows)
    name = "add_many / analyser + embedder + bare inserts"
    report.compare(name, results["Engram"], needed, "at most", 2)


def single_adds(report: measure.Report, store: Store, bare: Bare, turns: Iterator[str], rounds: int) -> None:
    session = store.sessions[-1]
    ours, bares = [], []
    for _ in range(rounds):
        some = list(islice(turns, ADDS))
        ours.append(seconds(partial(_add_each, store.eng, session, some)))
        fresh = bare.fresh(analyse(some))
        bares.append(seconds(partial(bare.write, fresh)))
    sides = (("Engram", ours), ("bare transaction", bares))
    report.table("writing one, µs", ("", "median"), [(name, median(times) / ADDS * 1e6) for name, times in sides])
    report.compare("add / bare transaction", ours, bares, "at most", 3)


def _add_each(eng: Engram, session: str, turns: Sequence[str]) -> None:
    for turn in turns:
        eng.exchanges.add(session, "user", turn)


def same_rows(ours: str, bare: str) -> str:
    """Check that both files have the same rows; the number of rows per table."""
    counts = []
    for table, columns in _COMPARED.items():
        found = []
        for path in (ours, bare):
            connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            found.append(connection.execute(f"SELECT {columns} FROM {table}").fetchall())
            connection.close()
        if found[0] != found[1]:
            raise AssertionError(f"the bare side and Engram wrote different rows to {table}: {found}")
        counts.append(f"{found[0][0][0]:,} {table}")
    return ", ".join(counts[:3])


class Question(NamedTuple):
    """A question, and the prepared input of the bare side."""

    text: str
    sql: str
    values: tuple[float, ...]
    vector: npt.NDArray[np.float32]


def prepared(connection: apsw.Connection, embedder: Embedder, texts: Sequence[str]) -> list[Question]:
    items, length = _row(connection, "SELECT items, length FROM shelves WHERE shelf = 'turns'")
    questions = []
    for text in texts:
        values: list[float] = []
        for term in dict.fromkeys(analyser.terms(text)):
            (number,) = _row(
                connection, "SELECT id FROM terms WHERE workspace = 'default' AND shelf = 'turns' AND term = ?", term
            )
            (count,) = _row(connection, "SELECT COUNT(*) FROM postings WHERE term = ?", number)
            values += (number, log(1 + (items - count + 0.5) / (count + 0.5)))
        slots = ", ".join(["(?, ?)"] * (len(values) // 2))
        vector = embedder.embed([text])[0]
        questions.append(Question(text, _BEST.format(slots=slots), (*values, length / items), vector))
    return questions


def _row(connection: apsw.Connection, sql: str, *values: str | int) -> Row:
    return connection.execute(sql, values).fetchall()[0]


class Matrix:
    """Vectors in memory, and a simple comparison of one vector with all."""

    def __init__(self, rows: list[Row]) -> None:
        self.items = np.array([item for item, _ in rows])
        self.vectors = np.frombuffer(b"".join(vector for _, vector in rows), np.int8).reshape(len(rows), -1)
        self._floats = np.empty((BLOCK, self.vectors.shape[1]), np.float32)

    def best(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        scores = np.empty(len(self.vectors), np.float32)
        for start in range(0, len(scores), BLOCK):
            block = self.vectors[start : start + BLOCK]
            floats = self._floats[: len(block)]
            np.copyto(floats, block)
            np.dot(floats, query, out=scores[start : start + len(block)])
        return self.items[np.argpartition(scores, -50)[-50:]]


_VECTORS = "SELECT item, vector FROM vectors"


def timed(answer: Callable[[Asked], object], questions: Sequence[Asked]) -> Callable[[], float]:
    """A function that answers the next question and returns the seconds it took."""
    waiting = iter(questions)
    return lambda: seconds(partial(answer, next(waiting)))


def recalls(report: measure.Report, store: Store, path: str, embedder: Embedder, texts: Sequence[str]) -> None:
    """Ask all sides each question, in alternation."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("PRAGMA temp_store=MEMORY")
    questions = prepared(connection, embedder, texts)
    matrix = Matrix(list(connection.execute(_VECTORS)))

    def postings(asked: Question) -> object:
        return connection.execute(asked.sql, asked.values).fetchall()

    def product(asked: Question) -> object:
        return matrix.best(asked.vector)

    def reading(asked: Question) -> object:
        rows = connection.execute(_VECTORS)
        scores = [
            (float(np.frombuffer(vector, np.int8).astype(np.float32) @ asked.vector), item) for item, vector in rows
        ]
        return sorted(scores, reverse=True)[:50]

    def bulk(asked: Question) -> object:
        return Matrix(list(connection.execute(_VECTORS))).best(asked.vector)

    def recall(asked: Question) -> object:
        return store.eng.recall(asked.text)

    sides = {
        "recall": recall,
        "bare postings": postings,
        "bare dot product": product,
        "reading all": reading,
        "reading all, in bulk": bulk,
    }
    for answer in sides.values():  # once for caches on all sides
        answer(questions[0])
    results = measure.alternate({name: timed(answer, questions) for name, answer in sides.items()}, len(questions))
    connection.close()
    bare = [sum(parts) for parts in zip(results["bare postings"], results["bare dot product"], strict=True)]
    size = f"{len(store.turns):,} turns"
    report.table(f"finding among {size}, ms", ("", "p50"), [(n, median(t) * 1e3) for n, t in results.items()])
    report.compare("recall / bare postings + bare dot product", results["recall"], bare, "at most", 3)
    report.compare("reading all vectors / recall", results["reading all"], results["recall"], "at least", 20)
    report.compare("reading all, in bulk / recall", results["reading all, in bulk"], results["recall"])


def starts(report: measure.Report, path: str, question: str, rounds: int) -> None:
    sides = {
        "engram recall": (os.path.join(sysconfig.get_path("scripts"), "engram"), "--store", path, "recall", question),
        "numpy and the embedder": (sys.executable, "-c", _LOADING, question),
    }
    work = {name: partial(seconds, partial(_process, *command)) for name, command in sides.items()}
    measure.alternate(work, 1)
    results = measure.alternate(work, rounds)
    report.table(
        "a fresh process, ms", ("", "median"), [(name, median(times) * 1e3) for name, times in results.items()]
    )
    loading = results["numpy and the embedder"]
    report.compare("engram recall / numpy and the embedder", results["engram recall"], loading, "at most", 3)


def _process(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def templated(report: measure.Report, folder: str, chats: Store, speech: Speech, tickets: Tickets, count: int) -> Store:
    """Ask a store of chats and one of templated turns in alternation; the second store."""
    store = Store(f"{folder}/tickets.db", len(chats.turns))
    turns = tickets.turns()
    for _ in range(len(chats.turns) // CHUNK):
        store.add(list(islice(turns, CHUNK)))
    memories = Store(f"{folder}/memories.db", 0)
    for turn in islice(turns, len(chats.turns) // 10):
        memories.eng.remember(turn)
    sides: dict[str, tuple[Store, Speech | Tickets]] = {
        "chats": (chats, speech),
        "templated": (store, tickets),
        "templated memories": (memories, tickets),
    }
    work = {}
    for name, (side, source) in sides.items():
        texts = source.questions(side.turns, count)
        side.eng.recall(texts[0])
        work[name] = timed(side.eng.recall, texts)
        work[f"{name}, by words"] = timed(partial(side.eng.recall, mode="words"), texts)
    results = measure.alternate(work, count)
    memories.eng.close()
    report.table("recall, ms", ("", "p50"), [(name, median(times) * 1e3) for name, times in results.items()])
    report.compare("recall: templated / chats", results["templated"], results["chats"], "at most", 2.5)
    by_words = (results["templated, by words"], results["chats, by words"])
    report.compare("recall by words: templated / chats", *by_words)
    return store


def million(
    report: measure.Report, folder: str, small: Store, source: Speech | Tickets, count: int, kind: str, most: float
) -> None:
    """Ask the same questions of a store ten times as large."""
    size = 10 * len(small.turns)
    large = Store(f"{folder}/large-{kind}.db", size)
    turns = source.turns()
    for start in range(0, size, CHUNK):
        large.add(list(islice(turns, CHUNK)))
        print(f"\r  {start + CHUNK:,} of {size:,} turns", end="", file=sys.stderr)
    print(file=sys.stderr)
    texts = source.questions(small.turns, count)
    work = {}
    for name, store in (("large", large), ("small", small)):
        store.eng.recall(texts[0])
        work[name] = timed(store.eng.recall, texts)
        work[f"{name}, by words"] = timed(partial(store.eng.recall, mode="words"), texts)
    results = measure.alternate(work, count)
    rows = [
        (
            f"{len(store.turns):,} {kind}",
            median(results[name]) * 1e3,
            median(results[f"{name}, by words"]) * 1e3,
            int(_process(sys.executable, "-c", _MEMORY, store.path, *texts[:10])) / 1e3,
        )
        for name, store in (("small", small), ("large", large))
    ]
    report.table("ten times as many", ("", "p50 ms", "by words", "peak MB"), rows)
    name = f"{rows[1][0]} / {len(small.turns):,}"
    report.compare(f"recall: {name}", results["large"], results["small"], "at most", most)
    report.compare(f"by words: {name}", results["large, by words"], results["small, by words"], "at most", 10)
    peak = rows[1][3] / 1e3
    report.ratios.append(measure.Ratio(f"peak memory of a process, {kind}, GB", peak, peak, peak, "at most", 1))
    large.eng.close()


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--million", action="store_true", help="also with ten times as many turns (takes long)")
    chosen = parser.parse_args()
    size, count = (20_000, 31) if chosen.quick else (100_000, 101)
    report = measure.Report("Recall: speed")
    embedder = load_embedder("static")
    assert embedder is not None
    speech = Speech()
    turns = speech.turns()
    with measure.workplace() as folder, ExitStack() as stack:
        store = Store(f"{folder}/engram.db", size)
        stack.callback(store.eng.close)
        bare = Bare(f"{folder}/bare.db", store.path)
        bare.write(bare.fresh(analyse(["hello"])))
        ingest(report, store, bare, embedder, turns, size)
        single_adds(report, store, bare, turns, 5 if chosen.quick else 21)
        bare.close()
        report.notes.append(f"both files have the same rows: {same_rows(store.path, bare.path)}")
        recalls(report, store, bare.path, embedder, speech.questions(store.turns, count))
        starts(report, store.path, speech.questions(store.turns, 1)[0], 5 if chosen.quick else 11)
        tickets = Tickets()
        second = templated(report, folder, store, speech, tickets, count)
        stack.callback(second.eng.close)
        if chosen.million:
            million(report, folder, store, speech, count, "chats", 12)
            million(report, folder, second, tickets, count, "templated", 10)
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
