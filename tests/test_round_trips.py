"""How many round trips a call makes to PostgreSQL, counted at the wire, directly and behind a pooler.

A round trip is what `_wire` says it is. Counted is a warm process: the second and later calls of the same kind, on a
connection that is already open. Every text contains words that the store has not seen before. The lowest of a few calls
counts, because a busy machine can make a count too high. The driver also needs a round trip for each statement that it
prepares; it does this once per statement and connection.

`open` is `Engram(url)` on a store that needs no migration, and the first read of one row, which takes a connection from
the pool. Its count contains every round trip that carries a statement, on all connections. What a connection does
before that (TLS, startup message, password) is not in it, because the server's settings decide that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from engram import Engram
from engram.config import load
from tests._pooler import HOW_TO_INSTALL, Pooler, program
from tests._wire import Count, Wire

#: Long enough that a client that does not wait has sent its next statement before the answer is back.
DELAY = 0.006
#: Warm calls of each kind.
CALLS = 4

OPEN = "open"
LIMITS = {"log": 4, "add": 8, "remember": 10, "recall": 8, OPEN: 4}


@pytest.fixture(scope="module")
def pooler(direct_server: str) -> Iterator[str]:
    if program() is None:
        pytest.skip(HOW_TO_INSTALL)
    made = Pooler(direct_server, "transaction", 2)
    yield made.url
    made.end()


@contextmanager
def counted(server: str) -> Iterator[Wire]:
    with Wire(server, DELAY, reads=True) as wire:
        yield wire


def calls(eng: Engram) -> dict[str, Callable[[int], object]]:
    """The calls that are counted. Each gets the number of the call, which makes some of its words new."""
    sid = eng.sessions.register("claude-code", "Porting the router")

    def text(number: int) -> str:
        return f"The router of module{number} now keeps its handlers in table{number}, and every handler has a test."

    return {
        "log": lambda number: eng.sessions.log(sid, f"step {number}: moved the handlers of module{number}"),
        "add": lambda number: eng.exchanges.add(sid, "assistant", text(number)),
        "remember": lambda number: eng.remember(f"Decided: {text(number)}", kind="decision", tags=["router"]),
        "recall": lambda number: eng.recall(f"where does the router keep the handlers of module{number}?", k=5),
    }


def least(wire: Wire, call: Callable[[int], object]) -> Count:
    """The count of the warm call with the fewest round trips."""
    call(0)
    found = []
    for number in range(1, CALLS + 1):
        with wire.counting() as count:
            call(number)
        found.append(count)
    return min(found, key=lambda count: count.trips)


def of_open(wire: Wire, url: str) -> Count:
    def open_and_read(_: int) -> None:
        with Engram(settings=load(url=url)) as eng:
            eng.blocks.get("world")

    return least(wire, open_and_read)


@pytest.mark.requirement("TRIPS-1")
@pytest.mark.parametrize("way", ["direct_server", "pooler"])
@pytest.mark.parametrize("name", LIMITS)
def test_a_call_makes_few_round_trips(name: str, way: str, postgres_url: str, request: pytest.FixtureRequest) -> None:
    server: str = request.getfixturevalue(way)
    with counted(server) as wire:
        url = f"{wire.url}&schema={postgres_url.rpartition('schema=')[2]}"
        if name == OPEN:
            count = of_open(wire, url)
        else:
            with Engram(settings=load(url=url)) as eng:
                made = calls(eng)
                # Recall needs something to find, in both kinds. The counted calls have other numbers.
                for number in (1001, 1002):
                    made["add"](number)
                    made["remember"](number)
                count = least(wire, made[name])
    print(count)
    assert 0 < count.trips <= LIMITS[name], str(count)


def test_statements_sent_together_are_one_round_trip(direct_server: str) -> None:
    with counted(direct_server) as wire, psycopg.connect(wire.url, autocommit=True) as connection:
        assert trips(wire, lambda: [connection.execute("SELECT 1").fetchall() for _ in range(3)]) == 3

        def pipelined() -> None:
            with connection.pipeline():
                for _ in range(3):
                    connection.execute("SELECT 1")

        assert trips(wire, pipelined) == 1
        assert (wire.connections, wire.startups > 0) == (1, True)


def test_a_long_statement_and_a_long_answer_are_one_round_trip(direct_server: str) -> None:
    long = "x" * 3_000_000
    with counted(direct_server) as wire, psycopg.connect(wire.url, autocommit=True) as connection:
        assert trips(wire, lambda: connection.execute("SELECT length(%s)", [long]).fetchall()) == 1
        assert trips(wire, lambda: connection.execute("SELECT repeat('x', 3000000)").fetchall()) == 1


def trips(wire: Wire, work: Callable[[], object]) -> int:
    return least(wire, lambda _: work()).trips
