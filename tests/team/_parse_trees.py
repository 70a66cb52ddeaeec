"""What each statement of a role touched, according to the server.

With `debug_print_parse` PostgreSQL logs every statement after it has looked up its names, with the object ids of tables
and functions. That covers the statements inside triggers and functions, and those of other processes. A command such as
CREATE or LOCK is logged with the names as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg.sql import SQL, Identifier

#: Each entry of the log begins with the role. The text of the statement would only make the log longer.
SERVER_SETTINGS = {"log_line_prefix": "%u|", "log_min_error_statement": "panic"}
_ROLE_SETTINGS = ("debug_print_parse = on", "debug_pretty_print = off")

# The server breaks the lines of a tree at spaces.
_RELATION = re.compile(r":relid\s+(\d+)")
_FUNCTION = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid)\s+(\d+)")
_WRITTEN_NAME = re.compile(r"\{RANGEVAR\s+:catalogname\s+\S+\s+:schemaname\s+(\S+)\s+:relname\s+(\S+)")


class Touched(NamedTuple):
    """Everything that the statements of some roles named, by schema."""

    relations: Mapping[str, set[str]]
    functions: Mapping[str, set[str]]
    #: Schemas that commands named. Without one, the search path decided: that is `<>`.
    written: set[str]
    #: Ids of tables that are gone.
    gone: set[int]
    statements: int


def record(connection: psycopg.Connection, role: str) -> None:
    """Log the statements of a role, from its next connection on."""
    for setting in _ROLE_SETTINGS:
        connection.execute(SQL("ALTER ROLE {} SET ").format(Identifier(role)) + SQL(setting))


def touched(log: Path, roles: Iterable[str], connection: psycopg.Connection) -> Touched:
    entries = re.split(r"^(?=\w*\|)", log.read_text(encoding="utf-8"), flags=re.MULTILINE)
    trees = [entry for entry in entries if entry.startswith(tuple(f"{role}|DETAIL:" for role in roles))]
    relations, functions = _ids(_RELATION, trees), _ids(_FUNCTION, trees)
    found = connection.execute(
        "SELECT oid, relnamespace::regnamespace::text, relname FROM pg_class WHERE oid = ANY(%s)", (list(relations),)
    ).fetchall()
    called = connection.execute(
        "SELECT pronamespace::regnamespace::text, proname FROM pg_proc WHERE oid = ANY(%s)", (list(functions),)
    ).fetchall()
    return Touched(
        _by_schema((schema, name) for _, schema, name in found),
        _by_schema(called),
        {schema for tree in trees for schema, _ in _WRITTEN_NAME.findall(tree)},
        relations - {id for id, _, _ in found},
        len(trees),
    )


def _ids(pattern: re.Pattern[str], trees: Iterable[str]) -> set[int]:
    return {int(id) for tree in trees for id in pattern.findall(tree)} - {0}


def _by_schema(rows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for schema, name in rows:
        found.setdefault(schema, set()).add(name)
    return found
