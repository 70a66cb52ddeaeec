"""What a person can do with a memory, wherever a page shows it.

With an admin token a person acts: what it pins and writes is approved. With another token it counts as an agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..http.html import Html, tag, together
from .parts import action, badge, button, field, forget, form, opener, row

if TYPE_CHECKING:
    from ...records import Memory
    from .request import PageRequest

#: The longest field for a text, in lines.
_MOST_LINES = 24


def actions(request: PageRequest, memory: Memory, key: str, *, pins: bool = True) -> Html | None:
    """Buttons to pin, edit, archive and forget, and the field to edit in. `key` tells places on one page apart."""
    if not request.may("write"):
        return None
    edit = f"edit-{key}"
    if not memory.content:
        return row(*changes(request, memory), forget(request, {"memory": memory.id}), class_="actions")
    buttons = row(
        pin(request, memory) if pins else None,
        opener("Edit", edit, data_key="e"),
        move(request, memory),
        forget(request, {"memory": memory.id}),
        class_="actions",
    )
    return together(buttons, editing(request, memory, edit, key))


def changes(request: PageRequest, memory: Memory) -> list[Html | None]:
    """The buttons that change it but not its text.

    Without a text there is nothing to approve or to read, so it can only be unpinned and archived.
    """
    if memory.content:
        return [pin(request, memory), decide(request, memory), move(request, memory)]
    return [pin(request, memory) if memory.pinned else None, move(request, memory)]


def is_waiting(memory: Memory) -> bool:
    """Whether it enters the brief only after a person has approved it, as in `memories.list(waiting=True)`."""
    derived = memory.kind in ("gist", "era", "digest")
    return not memory.approved and (memory.pinned or (memory.trust in ("tool", "import") and not derived))


def pinned(memory: Memory) -> Html | None:
    """Whether it is pinned. What an agent pinned is in no brief yet."""
    if not memory.pinned:
        return None
    return badge("pinned", "accent") if memory.approved else badge("pinned, to approve", "warn")


def pin(request: PageRequest, memory: Memory) -> Html | None:
    if not request.may("write") or memory.status != "active":
        return None
    text, done = ("Unpin", "Unpinned.") if memory.pinned else ("Pin", "Pinned.")
    call, values = _change(request, {"id": memory.id, "pinned": not memory.pinned})
    return action(call, text, values, picture="pin", done=done, data_key="p")


def decide(request: PageRequest, memory: Memory) -> Html | None:
    """Approve this version, or withdraw the approval."""
    if not request.may("admin"):
        return None
    if memory.approved:
        return action("library:memories.withdraw", "Withdraw approval", {"id": memory.id}, picture="reject")
    values = {"id": memory.id, "version": memory.version}
    return action("library:memories.approve", "Approve", values, picture="approve", data_key="a", done="Approved.")


def move(request: PageRequest, memory: Memory) -> Html | None:
    """Archive it, or take it out of the archive."""
    if not request.may("write"):
        return None
    match memory.status:
        case "active":
            return action("memory.archive", "Archive", {"id": memory.id}, picture="archive", done="Archived.")
        case "archived":
            return action("memory.unarchive", "Unarchive", {"id": memory.id}, picture="undo", done="Active again.")
    return None


def editing(request: PageRequest, memory: Memory, id: str, key: str) -> Html:
    """The field to change the text in, which is hidden until it is asked for."""
    # A version that the person has not seen is not overwritten.
    call, values = _change(request, {"id": memory.id, "expected_version": memory.version})
    lines = min(max(len(memory.content) // 70, memory.content.count("\n")) + 2, _MOST_LINES)
    # The library calls the text `content`, and the operation calls it `text`.
    name = "content" if request.may("admin") else "text"
    return form(
        call,
        field("Text", name, memory.content, long=True, required=True, rows=str(lines), key=key),
        field("Reason", "reason", key=key, placeholder="Why it changes (optional)", autocomplete="off"),
        row(button("Store"), tag("button", "Cancel", type="button", class_="second", data_shows=id)),
        values=values,
        class_="stack editing",
        id=id,
        hidden=True,
        data_conflict=str(memory.id),
        done="Stored as a new version.",
    )


def _change(request: PageRequest, values: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """The call for a change and its arguments: as a person's own if the person may approve."""
    if request.may("admin"):
        return "library:memories.update", {**values, "by_person": True}
    return "memory.update", dict(values)
