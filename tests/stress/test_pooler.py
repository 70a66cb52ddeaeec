"""Processes do mixed writes on two stores of one database, through a PgBouncer with few connections."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from engram import Engram
from engram.store_url import split_schema
from tests._pooler import HOW_TO_INSTALL, Pooler, program
from tests.stress import _agent
from tests.stress._agent import Account, Agent
from tests.stress._processes import Crew, Parent, scaled
from tests.stress.test_writers import check_everything

#: For each store.
PROCESSES = scaled(2, 8)
SECONDS = scaled(2, 60)


@pytest.fixture(params=["session", "transaction"])
def pooler(request: pytest.FixtureRequest, direct_server: str) -> Iterator[Pooler]:
    if program() is None:
        pytest.skip(HOW_TO_INSTALL)
    made = Pooler(direct_server, request.param, 3 if request.param == "transaction" else 60)
    yield made
    made.end()


@pytest.fixture
def urls(pooler: Pooler, direct_server: str) -> Iterator[list[str]]:
    """Two new stores in one database."""
    urls = [f"{pooler.url}&schema=stress_{os.getpid()}_{store}" for store in ("one", "two")]
    yield urls
    with psycopg.connect(direct_server, autocommit=True) as connection:
        for url in urls:
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(split_schema(url)[1])))


def work(parent: Parent, url: str, number: int, everybody: Sequence[str], ledger: str) -> Account:
    with Engram(url) as eng:
        agent = Agent(eng, number, everybody, ledger)
        parent.tell("ready")
        parent.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            account = agent.write(1)
        return account


@pytest.mark.requirement("STRESS-1", "POOLER-1")
def test_writers_of_two_stores_behind_one_pooler_lose_nothing_and_mix_nothing(urls: list[str]) -> None:
    crew = Crew()
    try:
        stores = []
        for url in urls:
            with Engram(url) as eng:
                everybody = [eng.sessions.register("agent", "the first task") for _ in range(PROCESSES)]
                ledger = eng.sessions.register("ledger", "what all log to")
                eng.blocks.create(_agent.JOURNAL)
                eng.blocks.create(_agent.COUNTER, "0")
                eng.blocks.create(_agent.BOARD)
            workers = [crew.start(work, url, number, everybody, ledger) for number in range(PROCESSES)]
            stores.append((url, everybody, ledger, workers))
        everyone = [worker for *_, workers in stores for worker in workers]
        for worker in everyone:
            worker.hear()
        for worker in everyone:
            worker.call()
        for url, everybody, ledger, workers in stores:
            accounts = [worker.result() for worker in workers]
            with Engram(url) as eng:
                check_everything(eng, accounts, everybody, ledger)
            print(f"\n{sum(sum(account.done.values()) for account in accounts)} writes by {PROCESSES} processes")
    finally:
        crew.end()
