from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg.sql import SQL, Composed, Identifier

from tests.team import _programs as programs

DEPLOY = Path(__file__).parents[2] / "deployment"
#: A database and roles of this process; other processes may be at work on the same server.
OWN = f"engram_team_{os.getpid()}"


class Database:
    """A database of its own, and the roles of its teams."""

    def __init__(self, server: str, name: str, options: str = "") -> None:
        self._server, self.name = server, name
        self._roles: list[str] = []
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(SQL("CREATE DATABASE {} ").format(Identifier(name)) + SQL(options))
        #: The address for the administrator.
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))

    def run(self, *statements: str | Composed) -> None:
        """As the administrator."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode() if isinstance(statement, str) else statement)

    def run_file(self, name: str, team: str) -> None:
        """A file of `deployment/`, for a team."""
        options = ("-q", "-v", "ON_ERROR_STOP=1", "-v", f"team={team}", "-f", str(DEPLOY / name))
        self.run_program("psql", *options, self.url)

    def run_program(self, name: str, *arguments: str) -> str:
        """A program of the server's own version; what it printed."""
        return programs.run(self.url, name, *arguments)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()

    def add_team(self, team: str) -> None:
        """The roles and the schema of a team, as an administrator makes them."""
        self._roles += [f"{team}_owner", f"{team}_app"]
        self.run_file("roles.sql", team)

    def url_of(self, role: str, schema: str) -> str:
        """The address of a store as this role opens it."""
        parts = urlsplit(self.url)
        # The tests' server asks for no password.
        place = parts.netloc.rpartition("@")[2]
        query = f"{parts.query}&schema={schema}" if parts.query else f"schema={schema}"
        return urlunsplit(parts._replace(netloc=f"{role}@{place}", query=query))

    def end(self) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(self.name)))
            for role in self._roles:
                connection.execute(SQL("DROP ROLE {}").format(Identifier(role)))


@pytest.fixture
def database(direct_server: str) -> Iterator[Database]:
    database = Database(direct_server, OWN)
    yield database
    database.end()
