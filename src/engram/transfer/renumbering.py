"""Gives the things of an import other numbers if theirs are taken.

Every number of a kind grows by the same amount: the last number that the store has given to that kind. So a reference
is right wherever it is, also one to a thing that was forgotten before the export, and nothing has to be remembered.

Numbers are in columns, in JSON, and in texts that Engram itself wrote: `[e12, m7]` at the end of a line of a block
names its sources, and forgetting goes by it. Other texts stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from ..dreaming import proposals as dreaming_proposals
from ..dreaming.plans import Plan
from ..dreaming.undo import snapshots
from ..memory import citations
from .tables import OF_KIND, Moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..storage.engine import Transaction

Values = dict[str, Any]

_LETTERS = {"e": "exchanges", "m": "memories", "b": "blocks"}
#: How a text that Engram wrote names a thing.
_NAMED = re.compile(r"\b(memory|exchange|memories|exchanges) (\d++(?:, \d++)*+)")
_RECEIPT_IDS = {
    "exchanges": "exchanges",
    "log entries shortened": "exchanges",
    "memories": "memories",
    "memories to rebuild": "memories",
    "blocks": "blocks",
    "blocks to rebuild": "blocks",
    "messages": "messages",
}

_PROPOSALS = """
SELECT id, what, content, hash FROM proposals
WHERE CAST(workspace AS TEXT) = :workspace AND id > :after ORDER BY id LIMIT 500
"""
_PARTS = """
SELECT part, kind, ref, version FROM proposal_parts
WHERE workspace = :workspace AND proposal = :proposal ORDER BY part, kind, ref
"""
# The new hash of one proposal may be the old one of another. So each waits behind a word that no hash begins with.
_SET_HASH = "UPDATE proposals SET hash = 'new ' || :hash WHERE workspace = :workspace AND id = :id"
_SHOW_HASHES = "UPDATE proposals SET hash = SUBSTR(hash, 5) WHERE workspace = :workspace AND hash LIKE 'new %'"
_THINGS = """
SELECT DISTINCT kind, ref FROM journal WHERE workspace = :workspace AND kind IN ('memory', 'block') ORDER BY kind, ref
"""
_ENTRIES = """
SELECT dream, action, before, after FROM journal
WHERE workspace = :workspace AND kind = :kind AND ref = :ref AND before IS NOT NULL AND after IS NOT NULL
"""
_SET_AFTER = """
UPDATE journal SET after = :after
WHERE workspace = :workspace AND dream = :dream AND kind = :kind AND ref = :ref AND action = :action
"""


class Renumbering:
    """By how much the numbers of each table grow."""

    def __init__(self, offsets: Mapping[str, int]) -> None:
        self._offsets = dict(offsets)

    def __bool__(self) -> bool:
        return any(self._offsets.values())

    def back(self) -> Renumbering:
        """From the new numbers to those in the file."""
        return Renumbering({table: -offset for table, offset in self._offsets.items()})

    def number(self, table: str, value: Any) -> Any:
        """The new number of a row; what is no number of a row stays."""
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            return value
        return value + self._offsets.get(table, 0)

    def values(self, moved: Moved, values: Values) -> Values:
        """A row with its new numbers."""
        table = moved.table
        new = dict(values)
        if table.number is not None:
            new[table.number] = self.number(table.name, values[table.number])
        for column, other in moved.numbers:
            new[column] = self.number(other, values[column])
        for column, kind in moved.by_kind:
            new[column] = self.number(OF_KIND.get(values[kind], ""), values[column])
        special = _SPECIAL.get(table.name)
        return special(self, new) if special else new

    def numbers(self, table: str, values: Iterable[Any]) -> list[Any]:
        return [self.number(table, value) for value in values]

    def lines(self, text: str) -> str:
        """A block's text whose lines name their sources."""
        if "[" not in text:
            return text
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        named = citations.handles(line)
        if not named:
            return line
        start = line.rindex("[")
        new = [f"{each[0]}{self.number(_LETTERS.get(each[0], ''), int(each[1:]))}" for each in named]
        separator = ", " if ", " in line[start:] else ","
        return f"{line[:start]}[{separator.join(new)}]{line[line.rindex(']') + 1 :]}"

    def words(self, text: str) -> str:
        """A text of Engram's own that names things: `memories 3, 4 say the same`."""

        def new(found: re.Match[str]) -> str:
            table = "memories" if found[1].startswith("memor") else "exchanges"
            return f"{found[1]} {', '.join(str(self.number(table, int(each))) for each in found[2].split(', '))}"

        return _NAMED.sub(new, text)

    def data(self, text: str | None) -> str | None:
        """A memory's data: whose data a merged one has, and which gists an era tells."""
        found = _loaded(text)
        if not isinstance(found, dict):
            return text
        new = dict(found)
        if isinstance(found.get("merged"), dict):
            merged = found["merged"].items()
            new["merged"] = {str(self.number("memories", int(id))) if id.isdecimal() else id: v for id, v in merged}
        if isinstance(found.get("gists"), list):
            new["gists"] = self.numbers("memories", found["gists"])
        return text if new == found else json.dumps(new)

    def snapshot(self, kind: str, found: Values | None) -> Values | None:
        """A snapshot of the journal."""
        if found is None:
            return None
        new = dict(found)
        if kind == "session":
            if isinstance(found.get("gist"), list):
                new["gist"] = [self.number("memories", found["gist"][0]), *found["gist"][1:]]
            return new
        if "row" not in found:
            return found
        row = new["row"] = dict(found["row"])
        if kind == "memory":
            row["superseded_by"] = self.number("memories", row.get("superseded_by"))
            row["data"] = self.data(row.get("data"))
            new["links"] = [
                [self.number("memories", one), self.number("memories", other), *rest]
                for one, other, *rest in found.get("links", ())
            ]
        else:
            row["content"] = self.lines(row["content"])
        new["versions"] = [
            [version, self.lines(text) if kind == "block" else text, *middle, self.number("receipts", receipt)]
            for version, text, *middle, receipt in found.get("versions", ())
        ]
        new["sources"] = [
            [version, source, self.number(OF_KIND.get(source, ""), id)]
            for version, source, id in found.get("sources", ())
        ]
        new["rebuild"] = self.number("receipts", found.get("rebuild"))
        return new

    def state(self, kind: str, found: Values | None) -> Values | None:
        """The state that an action left: like a snapshot, but with hashes, which `finish` makes again."""
        if found is None or kind == "session":
            return self.snapshot(kind, found)
        new = dict(found)
        new["rebuild"] = self.number("receipts", found.get("rebuild"))
        if kind == "memory":
            new["superseded_by"] = self.number("memories", found.get("superseded_by"))
            new["links"] = [
                [self.number("memories", one), self.number("memories", other), *rest]
                for one, other, *rest in found.get("links", ())
            ]
        return new


def finish(tx: Transaction, workspace: str, renumbering: Renumbering) -> None:
    """Make the hashes again that cover numbers, after everything was inserted."""
    if renumbering:
        _hash_proposals(tx, workspace, renumbering)
        _hash_states(tx, workspace, renumbering)


def _hash_proposals(tx: Transaction, workspace: str, renumbering: Renumbering) -> None:
    after, back = 0, renumbering.back()
    while found := tx.all(_PROPOSALS, workspace=workspace, after=after):
        for id, what, content, hash in found:
            parts = tx.all(_PARTS, workspace=workspace, proposal=id)
            new = _plan(what, content, parts)
            numbers = [(part, kind, back.number(OF_KIND[kind], ref), version) for part, kind, ref, version in parts]
            old = _plan(what, back.lines(content) if what == "rewrite" else content, numbers)
            if new != old:
                is_known = dreaming_proposals.hash_of(old) == hash
                # That of an edited proposal is about its first text, which is gone. It must not stand for another plan.
                lost = hashlib.sha256(f"of another store: {hash}".encode()).hexdigest()
                hash = dreaming_proposals.hash_of(new) if is_known else lost
                tx.run(_SET_HASH, workspace=workspace, id=id, hash=hash)
            after = id
    tx.run(_SHOW_HASHES, workspace=workspace)


def _plan(what: str, content: str, parts: Iterable[tuple[Any, ...]]) -> Plan:
    targets = tuple((kind, ref, version) for part, kind, ref, version in parts if part == "target")
    sources = tuple((kind, ref) for part, kind, ref, _ in parts if part == "source")
    return Plan(what, "", 0.0, content, targets, sources, {})


def _hash_states(tx: Transaction, workspace: str, renumbering: Renumbering) -> None:
    """A state that a pass left is known by hashes. It is found again among the states that the thing has or had."""
    back = renumbering.back()
    for kind, ref in tx.all(_THINGS, workspace=workspace):
        about = {"workspace": workspace, "kind": kind, "ref": ref}
        entries = tx.all(_ENTRIES, **about)
        known = [snapshots.read(tx, workspace, (kind, ref))]
        known += [snapshots.load(before, (kind, ref)) for _, _, before, _ in entries]
        states: dict[str, str] = {}
        for snapshot in filter(None, known):
            if isinstance(snapshot, dict):
                # As JSON gives it, because hashes do not tell tuples from lists, but comparisons do.
                plain = json.loads(json.dumps(_latest(snapshot)))
                old = renumbering.state(kind, snapshots.state(kind, back.snapshot(kind, plain)))
                states[snapshots.dump(old)] = snapshots.dump(snapshots.state(kind, plain))
        for dream, action, _, after in entries:
            if after in states:
                tx.run(_SET_AFTER, after=states[after], dream=dream, action=action, **about)


def _latest(snapshot: Values) -> Values:
    """The snapshot with the sources of its own version only, as a state has them."""
    version = snapshot["row"]["version"]
    return {**snapshot, "sources": [each for each in snapshot["sources"] if each[0] >= version]}


def _loaded(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _receipt(renumbering: Renumbering, values: Values) -> Values:
    found = _loaded(values["went"])
    if isinstance(found, dict) and isinstance(found.get("ids"), dict):
        ids = {
            name: renumbering.numbers(_RECEIPT_IDS.get(name, ""), each) if isinstance(each, list) else each
            for name, each in found["ids"].items()
        }
        values["went"] = json.dumps({**found, "ids": ids})
    values["asked"] = renumbering.words(values["asked"])
    return values


def _block(renumbering: Renumbering, values: Values) -> Values:
    return {**values, "content": renumbering.lines(values["content"])}


def _memory(renumbering: Renumbering, values: Values) -> Values:
    return {**values, "data": renumbering.data(values["data"])}


def _dream(renumbering: Renumbering, values: Values) -> Values:
    found = _loaded(values["report"])
    if isinstance(found, dict) and found:
        for name, table in (("undone_by", "dreams"), ("run", "dreams"), ("proposal", "proposals")):
            if name in found:
                found[name] = renumbering.number(table, found[name])
        for name in ("restored", "removed", "left"):
            if isinstance(found.get(name), list):
                found[name] = [renumbering.words(each) if isinstance(each, str) else each for each in found[name]]
        values["report"] = json.dumps(found)
    return values


def _proposal(renumbering: Renumbering, values: Values) -> Values:
    found = _loaded(values["data"])
    if isinstance(found, dict) and "winner" in found:
        values["data"] = json.dumps({**found, "winner": renumbering.number("memories", found["winner"])})
    if values["what"] == "rewrite":
        values["content"] = renumbering.lines(values["content"])
    values["why"] = renumbering.words(values["why"])
    return values


def _journal(renumbering: Renumbering, values: Values) -> Values:
    kind = values["kind"]
    if kind in OF_KIND and values["ref"].isdecimal():
        values["ref"] = str(renumbering.number(OF_KIND[kind], int(values["ref"])))
    before, after = _loaded(values["before"]), _loaded(values["after"])
    if isinstance(before, dict):
        values["before"] = snapshots.dump(renumbering.snapshot(kind, before))
    if isinstance(after, dict):
        values["after"] = snapshots.dump(renumbering.state(kind, after))
    return values


def _import(renumbering: Renumbering, values: Values) -> Values:
    if values["what"] == "memory" and values["id"].isdecimal():
        values["id"] = str(renumbering.number("memories", int(values["id"])))
    return values


_SPECIAL = {
    "receipts": _receipt,
    "blocks": _block,
    "block_versions": _block,
    "memories": _memory,
    "dreams": _dream,
    "proposals": _proposal,
    "journal": _journal,
    "imports": _import,
}
