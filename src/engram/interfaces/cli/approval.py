"""What `engram memory approve` shows and asks: a person approves exactly what agents will read.

The whole text is printed, and first the line of the brief if that is shorter. Only the version that was shown is
approved, also if the memory is edited while the person reads.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from ...safe_text import brief_text
from .common import as_json, typed
from .screen import day, hanging, one_line, say, style, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...client import Engram
    from ...records import Memory


class MemoryVersionType(click.ParamType[tuple[int, int | None]]):
    """The id of a memory, and the version that is meant: `2` or `2@3`."""

    name = "id[@version]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int | None]:
        found = re.fullmatch(r"([1-9]\d{0,17})(?:@([1-9]\d{0,8}))?", str(value), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is neither an id such as 2 nor an id with a version such as 2@3.", param, ctx)
        return int(found[1]), int(found[2]) if found[2] else None


MEMORY_VERSION = MemoryVersionType()


def approve(ctx: click.Context, eng: Engram, named: Sequence[tuple[int, int | None]], *, sure: bool) -> list[Memory]:
    """Show the memories, ask, and approve the versions that were shown."""
    from ...errors import VersionConflict

    found = [(eng.memories.get(id), version) for id, version in named]
    for memory, version in found:
        if version not in (None, memory.version):
            message = f"Memory {memory.id} is at version {memory.version}, not {version}; look at it again."
            raise VersionConflict(message, f"memory {memory.id}", version or 0, memory.version)
    if not as_json(ctx):
        say("\n".join(line for memory, _ in found for line in _shown(memory)))
    if not sure and not (_can_ask(ctx) or all(version for _, version in found)):
        exact = [f"{memory.id}@{memory.version}" for memory, _ in found]
        raise click.UsageError(
            "Without a terminal nobody can be asked. Name the version that you have read: "
            f"{typed('memory', 'approve', *exact)}, or give --yes."
        )
    if not sure and _can_ask(ctx):
        click.confirm("Approve this?" if len(found) == 1 else f"Approve these {len(found)}?", abort=True, err=True)
    return eng.memories.approve_all({memory.id: memory.version for memory, _ in found})


def decided(memory: Memory, *, withdrawn: bool = False) -> str:
    state = "approved" if memory.approved else "no longer approved" if withdrawn else "not approved"
    return f"Memory {memory.id}, version {memory.version}, is {state}."


def waiting(found: list[Memory]) -> str:
    """The memories that wait. Their first column can be typed back."""
    if not found:
        return "No memory is waiting for a person's approval."
    rows = [
        (
            f"{each.id}@{each.version}",
            each.kind,
            each.trust,
            "pinned" if each.pinned else "",
            day(each.said_at),
            each.content,
        )
        for each in found
    ]
    shown = table(("id", "kind", "trust", "pin", "date", "content"), rows)
    approve, archive = typed("memory", "approve", "ID"), typed("memory", "archive", "ID")
    return f"{shown}\n\nTo read one as a whole and approve it: {approve}\nIf you do not want it: {archive}"


def needs_person(memory: Memory) -> str:
    """What is said about a pin that the brief does not show yet."""
    if not memory.pinned or memory.approved:
        return ""
    command = typed("memory", "approve", str(memory.id))
    return f" The brief shows this pin once a person has approved it, in their own terminal: {command}"


def _shown(memory: Memory) -> Iterator[str]:
    """A memory as a person should read it before approving it."""
    line, cut = brief_text(memory.content, len(memory.content))
    about = [memory.kind, f"trust {memory.trust}", "pinned" if memory.pinned else ""]
    yield style(
        f"Memory {memory.id}, version {memory.version} ({one_line(', '.join(filter(None, about)), 200)})", bold=True
    )
    if line == memory.content:
        yield f"  {line}"
        return
    yield f"  In the brief{' (cut)' if cut else ''}: {line}"
    yield f"  The whole text, {len(memory.content):,} characters:"
    yield f"    {hanging(memory.content, 4)}"


def _can_ask(ctx: click.Context) -> bool:
    return not as_json(ctx) and sys.stdin.isatty() and sys.stdout.isatty()
