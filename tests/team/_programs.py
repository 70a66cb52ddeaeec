"""The programs that belong to a PostgreSQL server on this machine: psql, pg_dump, pg_restore."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg


def run(server: str, name: str, *arguments: str) -> str:
    """What the program printed. It fails if the program fails, with what it said."""
    with psycopg.connect(server) as connection:
        row = connection.execute("SELECT setting FROM pg_config WHERE name = 'BINDIR'").fetchone()
    assert row is not None
    done = subprocess.run([Path(row[0], name), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name} failed: {done.stderr}"
    return done.stdout
