"""docs/reference/schema.md: the tables that the migrations of SQLite make, and who erases their texts.

What a column may hold comes from the declarations that forgetting and its tests use, so a column cannot be on this page
without one.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import apsw
from docs.generators.tables import code, table
from tests.security.test_text_columns import NEVER

from engram import Engram
from engram.forgetting.forget import COPIES, TEXTS

_HEAD = """\
# Schema

`make docs` writes this page from a new SQLite store and from the declarations of `forgetting`. A PostgreSQL store has
the same tables and columns; its vectors have pgvector's type. Only Engram should write to these tables. Times are UTC
text of fixed width.

Each text column says who erases it:

- **erased with** names what is forgotten: an exchange, a memory, a block, a session. *quoted turn* is the turn that a
  session's summary or outcome quotes.
- **copies** says how a copy of another text is found when the original is forgotten. *sources*: through the table
  `sources`. *merged*: by comparing the labels of a merged memory with those of its sources. *itself*: it is made from
  the row it belongs to. *none*: Engram copies nothing into it.
- Every other text column never holds content, and says what it holds instead.

"""

#: What each table is for. A new table needs a line here.
PURPOSES = {
    "migrations": "The migrations that were applied, each with the hash of its file.",
    "changes": "The change feed: one row for every write, numbered in commit order.",
    "sessions": "Agents at work, and those that are done.",
    "exchanges": "What was said and done in sessions, log entries included.",
    "leases": "Claims on resources. The number of a lease is its fencing token.",
    "lease_waiters": "Claims that wait for an exclusive lease.",
    "messages": "Texts from one session, or a person, to others.",
    "deliveries": "Which session was given which message, and when.",
    "blocks": "Named texts in their current version.",
    "block_versions": "One row for each state that a block ever had.",
    "memories": "What is worth knowing, in its current version. Gists, eras and digests are memories too.",
    "memory_versions": "Earlier texts of memories.",
    "memory_tags": "Tags of memories.",
    "memory_links": "Links between memories that a person or an agent made.",
    "memory_states": "What a memory was like from a time on, apart from its text.",
    "sources": "Provenance: what each derived thing was made from.",
    "items": "What recall can find: a turn, a log entry, a memory, or a piece of a long one.",
    "terms": "Words of the index.",
    "postings": "Which item has which word, and how often.",
    "shelves": "How many items there are and how long they are, for scoring by words.",
    "backlog": "Items that have no vector yet.",
    "vectors": "Vectors of items, eight bits for each dimension.",
    "models": "The model whose vectors a workspace is searched with, and the one that takes its place.",
    "receipts": "What was forgotten and when, without a word of it.",
    "rebuilds": "Derived things that must be made again, because a source is gone.",
    "gists": "What is known about a gist besides its text.",
    "folds": "Gists that are new to an era, to the portrait, or to the reading for facts.",
    "drives": "What the drives of dreaming remember between passes.",
    "dreams": "Passes and their reports.",
    "dream_retries": "Stages that left work undone, and when they try again.",
    "usage": "Calls and tokens of models, by day and stage.",
    "work": "Thinking that waits for an agent, or whose answer waits for the next pass.",
    "journal": "What each action of a pass changed, so that it can be undone.",
    "proposals": "What a pass would change, for a person or an agent to decide.",
    "proposal_parts": "What a proposal rests on, and what it would change.",
    "injections": "What a session was given by its brief or with a prompt.",
    "harness_processes": "Processes of harnesses and MCP servers, and their sessions.",
    "lease_notices": "What a session was told about a lease of another one.",
    "imports": "What was imported, so that the same file adds nothing twice.",
    "access_tokens": "Access tokens, as hashes.",
    "access_links": "Links that log a browser in once, as hashes.",
    "access_logins": "Browsers that are logged in.",
    "access_attempts": "Failed attempts and requests, counted for limits.",
    "access_answers": "Answers to requests that may be repeated.",
    "access_clients": "OAuth clients.",
    "access_requests": "Requests of OAuth clients that wait for consent.",
    "access_consents": "Consents that let an OAuth client in.",
    "access_codes": "Authorization codes and refresh tokens, as hashes.",
}
#: How a way of forgetting is told; the others are told by their names.
_WAYS = {
    "quoted": "quoted turn",
    "erase_snapshots": "anything that the snapshot holds",
    "delete_agent_work": "anything: all work items go",
    "delete_proposals": "anything that the proposal rests on",
    "blank_answers": "anything: all answers are emptied",
}
_TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite*' ORDER BY rowid"
_COLUMNS = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)'


def page() -> str:
    with tempfile.TemporaryDirectory(prefix="engram-docs-") as folder:
        path = str(Path(folder) / "engram.db")
        Engram(path).close()
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            made = {
                name: (sql, list(connection.execute(_COLUMNS, (name,)))) for name, sql in connection.execute(_TABLES)
            }
        finally:
            connection.close()
    assert made.keys() == PURPOSES.keys(), f"PURPOSES and the schema differ in {sorted(made.keys() ^ PURPOSES.keys())}."
    return _HEAD + "".join(_table(name, *made[name]) for name in PURPOSES).rstrip("\n") + "\n"


def _table(name: str, sql: str, columns: Sequence[tuple[str, str, int, str | None, int]]) -> str:
    notes, rows = _comments(sql), []
    for column, kind, required, default, key in columns:
        marks = [kind.lower()]
        marks += ["key"] if key else ([] if required else ["or null"])
        marks += [f"default {default}"] if default is not None else []
        holds = "; ".join(filter(None, (notes.get(column, ""), _erased(name, column, kind))))
        rows.append((code(column), ", ".join(marks), holds))
    return f"## {name}\n\n{PURPOSES[name]}\n\n" + table(("column", "type", "what it holds"), rows)


def _erased(name: str, column: str, kind: str) -> str:
    if column in TEXTS.get(name, {}):
        ways = ", ".join(_WAYS.get(way, way) for way in TEXTS[name][column].split(", "))
        copies = ", ".join(_WAYS.get(way, way) for way in COPIES[name][column].split(", "))
        return f"**erased with** {ways}" + ("" if ways == copies else f"; **copies** {copies}")
    if kind != "TEXT":
        return ""
    return NEVER.get(f"{name}.{column}") or NEVER.get(column, "")


def _comments(sql: str) -> dict[str, str]:
    """Comments above columns in the statement that made the table."""
    found: dict[str, str] = {}
    held: list[str] = []
    for line in sql.splitlines()[1:]:
        stripped = line.strip()
        if stripped.startswith("--"):
            held.append(stripped[2:].strip())
            continue
        column = re.match(r"(\w+) [A-Z]", stripped)
        if column and held:
            found[column[1]] = " ".join(held).rstrip(".")
        held = []
    return found
