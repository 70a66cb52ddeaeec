"""Operations on memories and exchanges: store, recall, edit, forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..records import UNLIKELY
from .inputs import (
    AT,
    AUTHOR,
    BUDGET,
    CURSOR,
    ID,
    LIMIT,
    ME,
    ME_IF_KNOWN,
    PROJECT,
    REASON,
    SESSION_ID,
    SINCE,
    TRUST,
    UNTIL,
    Input,
    Operation,
    Pages,
    flag,
    number,
    text,
    texts,
    whole,
)

if TYPE_CHECKING:
    from ..client import Engram


def _remember(eng: Engram, text: str, session: str | None = None, **options: Any) -> object:
    # Imported here: an MCP server lists the operations before it does anything else.
    from .. import checks

    # The library calls it content, so its errors would name an argument that the caller does not know.
    return eng.remember(checks.text(text, "text"), session_id=session, **options)


def _recall(eng: Engram, query: str, k: int = 5, in_session: str | None = None, **options: Any) -> object:
    if "what" not in options:
        # Memories have kinds and turns have roles: a caller who filters by one of them wants only those.
        chosen = [name for name, filter in (("memories", "kinds"), ("exchanges", "roles")) if options.get(filter)]
        options["what"] = chosen or ["exchanges", "memories"]
    return eng.recall(query, k, session_id=in_session, **{"min_score": UNLIKELY, **options})


def _show_memory(eng: Engram, id: int, at: str | None = None) -> object:
    memories = eng.memories
    more = {name: getattr(memories, name)(id, at=at) for name in ("sources", "links", "history")}
    return {**memories.get(id, at=at)._asdict(), **more}


def _link(eng: Engram, id: int, to: int, relation: str = "related") -> object:
    eng.memories.link(id, to, relation)
    return {"from": id, "to": to, "relation": relation}


def _history(
    eng: Engram,
    id: str,
    last: int | None = None,
    limit: int = 0,
    start: tuple[int, ...] | None = None,
    after: int | None = None,
    before: int | None = None,
    logs: bool = False,
) -> object:
    # Imported here: an MCP server lists the operations before it does anything else.
    from .. import checks

    most = checks.whole(limit, "limit", least=0) or None
    given = {"last": last, "after": after, "before": before}
    together = [name for name, value in given.items() if value is not None]
    for name in together:
        checks.whole(given[name], name, least=0 if name == "after" else 1)
    if start:
        together.append("cursor")
    if len(together) > 1:
        raise InvalidInput(f"{together[0]} and {together[1]} cannot be combined; leave one of them out.")
    if last is not None:
        return eng.exchanges.recent(id, last, logs=logs)[:most]
    if before is None:
        return eng.exchanges.history(id, limit, after=start[0] if start else after or 0, logs=logs)
    found = eng.exchanges.history(id, limit, before=before, logs=logs)
    # Who wants pages asks for one row more than a page has. Here the page ends with the row next to `before`.
    return found[1:] if start is not None and most is not None and len(found) == most else found


def _work_backlog(eng: Engram, limit: int | None = None) -> object:
    queue = eng.embedding_queue
    return {"done": queue.work(limit), "left": queue.size()}


OPERATIONS = (
    Operation(
        "remember",
        "write",
        "Store something worth knowing.",
        _remember,
        (
            ME_IF_KNOWN,
            text("text", "one self-contained sentence", required=True),
            text("kind", "fact, preference, decision, lesson, note, todo or your own"),
            texts("tags"),
            text("key", "subject; supersedes the same kind and key"),
            number("importance", "0 to 1"),
            flag("pinned", "always relevant"),
            PROJECT._replace(rare=True),
            TRUST,
            text("expires_at", "ISO 8601", rare=True),
            Input("data", "object", "data to keep with it", rare=True),
        ),
    ),
    Operation(
        "recall",
        "read",
        "Search what was said, done or learnt, by words and meaning.",
        _recall,
        (
            text("query", "a question or a few words", required=True),
            whole("k", "maximum number", bounds=(1, 100)),
            texts("kinds", "only memories of these"),
            texts("tags"),
            PROJECT,
            SINCE,
            UNTIL,
            text("in_session", "only this session"),
            whole("neighbours", "turns around each hit", bounds=(0, 20)),
            BUDGET,
            number("min_score", f"0 to 1; default {UNLIKELY}"),
            texts("what", "exchanges, memories", rare=True),
            texts("roles", "only turns with these roles; log for log entries", rare=True),
            text("exclude_session", "not from this session", rare=True),
            text("prefer_project", "rank it slightly higher", rare=True),
            AUTHOR,
            text("mode", choices=("hybrid", "words", "vectors"), rare=True),
            flag("include_archived", "include archived and superseded ones", rare=True),
        ),
    ),
    Operation(
        "forget",
        "admin",
        "Delete exactly one of these.",
        lambda eng, of_session=None, **what: eng.forget(session=of_session, **what),
        (
            whole("memory", "id"),
            whole("exchange", "id"),
            text("of_session", "session id"),
            text("block", "name"),
            text("before", "everything older; ISO 8601"),
            text("source", "every session of this type"),
            flag("dry_run", "only report"),
        ),
    ),
    Operation(
        "receipts",
        "read",
        "What was forgotten, newest first.",
        lambda eng, limit=20, start=None: eng.receipts(limit, before=start[0] if start else None),
        (LIMIT, CURSOR),
        Pages(("id",), (int,), 20),
    ),
    Operation(
        "memory.list",
        "read",
        "Memories, newest first.",
        lambda eng, limit=50, start=None, **filters: eng.memories.list(
            limit=limit, before=start[0] if start else None, **filters
        ),
        (
            text("kind"),
            text("tag"),
            text("status", choices=("active", "superseded", "archived")),
            PROJECT,
            SINCE,
            UNTIL,
            number("importance", "minimum"),
            flag("pinned", "only pinned ones"),
            flag("derived", "false: without gists, eras and digests", rare=True),
            AUTHOR,
            AT,
            LIMIT,
            CURSOR,
        ),
        Pages(("id",), (int,), 50),
    ),
    Operation("memory.show", "read", "Everything about one memory.", _show_memory, (ID, AT)),
    Operation(
        "memory.update",
        "write",
        "Change a memory; a new text is a new version.",
        lambda eng, id, text=None, session=None, **changes: eng.memories.update(id, text, actor=session, **changes),
        (
            ME_IF_KNOWN,
            ID,
            text("text"),
            REASON,
            texts("tags", "replace the existing tags"),
            number("importance", "0 to 1"),
            flag("pinned"),
            text("expires_at", "ISO 8601"),
            whole("expected_version", "fail if it is at another version", rare=True),
        ),
    ),
    Operation(
        "memory.archive",
        "write",
        "Archive a memory; it stays readable.",
        lambda eng, id: eng.memories.archive(id),
        (ID,),
    ),
    Operation(
        "memory.unarchive",
        "write",
        "Make an archived memory active again.",
        lambda eng, id: eng.memories.unarchive(id),
        (ID,),
    ),
    Operation(
        "memory.link",
        "write",
        "Link two memories.",
        _link,
        (ID, whole("to", "the other memory", required=True), text("relation")),
    ),
    Operation(
        "exchange.add",
        "write",
        "Add a turn or log entry to a session; its id.",
        lambda eng, session, role, text, **options: {"id": eng.exchanges.add(session, role, text, **options)},
        (
            ME,
            text("role", required=True, choices=("user", "assistant", "system", "tool", "log")),
            text("text", required=True),
            text("created_at", "ISO 8601; default: now"),
            TRUST,
        ),
    ),
    Operation("exchange.show", "read", "One exchange.", lambda eng, id: eng.exchanges.get(id), (ID,)),
    Operation(
        "exchange.around",
        "read",
        "A turn with the turns around it.",
        lambda eng, id, n=2: eng.exchanges.around(id, n),
        (ID, whole("n", "on each side")),
    ),
    Operation(
        "exchange.history",
        "read",
        "The turns of a session, oldest first.",
        _history,
        (
            SESSION_ID,
            whole("last", "only this many of the latest"),
            LIMIT._replace(rare=True),
            whole("after", "only with a higher seq", rare=True),
            whole("before", "the last ones with a lower seq", rare=True),
            flag("logs", "include log entries", rare=True),
            CURSOR,
        ),
        Pages(("seq",), (int,), 1_000),
    ),
    Operation(
        "exchange.timeline",
        "read",
        "Turns of all sessions, newest first.",
        lambda eng, since=None, limit=50, start=None: eng.exchanges.timeline(since, limit, before=start or None),
        (SINCE, whole("limit"), CURSOR),
        Pages(("created_at", "id"), (str, int), 50),
    ),
    Operation(
        "backlog.work",
        "admin",
        "Compute embeddings for items that were written without a model.",
        _work_backlog,
        (whole("limit"),),
    ),
)
