"""Operations on dreaming: context, passes, undo, proposals, work items for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .inputs import BUDGET, CURSOR, ID, LIMIT, ME_IF_KNOWN, Operation, Pages, flag, text, texts, whole

if TYPE_CHECKING:
    from ..client import Engram


def _submit(eng: Engram, item: int, answer: str, session: str | None = None) -> object:
    eng.work.submit(item, answer, session)
    return {"item": item}


def _review(
    eng: Engram,
    id: int | None = None,
    decide: str | None = None,
    text: str | None = None,
    expected: str | None = None,
) -> object:
    """The pending proposals; with an id one of them, and with `decide` the decision on it."""
    if id is None:
        return eng.proposals.list()
    if decide is None:
        return eng.proposals.show(id)
    if decide == "edit":
        return eng.proposals.edit(id, text or "", expected=expected)
    if decide == "apply":
        return eng.proposals.apply(id, content=text, expected=expected)
    decisions = {"accept": eng.proposals.accept, "reject": eng.proposals.reject}
    return decisions[decide](id, expected=expected)


OPERATIONS = (
    Operation(
        "context",
        "read",
        "What to read now: profile, what fits the query, latest turns.",
        lambda eng, query=None, session=None, budget=2_000: eng.context(query, session, budget),
        (ME_IF_KNOWN, text("query", "what it is about"), BUDGET),
    ),
    Operation(
        "dream.run",
        "admin",
        "Run one pass.",
        lambda eng, **options: eng.dream(**options),
        (flag("force", "run every stage"), flag("dry_run", "only report"), texts("stages", rare=True)),
    ),
    Operation("dream.status", "read", "What is pending, how urgent, the last pass.", lambda eng: eng.dreams.status()),
    Operation(
        "dream.list",
        "read",
        "Earlier passes, newest first.",
        lambda eng, limit=20, start=None: eng.dreams.list(limit, before=start[0] if start else None),
        (LIMIT, CURSOR),
        Pages(("id",), (int,), 20),
    ),
    Operation(
        "dream.show",
        "read",
        "The report of a pass, an undo or an applied proposal.",
        lambda eng, id: eng.dreams.show(id),
        (ID,),
    ),
    Operation(
        "dream.next",
        "write",
        "Take the next work item.",
        lambda eng, session=None: eng.work.next(session),
        (ME_IF_KNOWN,),
    ),
    Operation(
        "dream.submit",
        "write",
        "Submit its answer.",
        _submit,
        (
            ME_IF_KNOWN,
            whole("item", "from next", required=True),
            text("answer", "text, or JSON that matches its schema", required=True),
        ),
    ),
    Operation(
        "dream.review",
        "write",
        "List proposals; with id and decide, decide one.",
        _review,
        (
            whole("id"),
            text("decide", choices=("accept", "edit", "reject", "apply")),
            text("text", "new text"),
            text("expected", "its `version` when it was read; refused when it has changed", rare=True),
        ),
    ),
    Operation(
        "dream.undo",
        "admin",
        "Undo a pass or applied proposal; default: the newest pass.",
        lambda eng, run=None: eng.dreams.undo(run),
        (whole("run", "its number"),),
    ),
    Operation(
        "usage",
        "read",
        "Model calls and tokens, by day and stage.",
        lambda eng, days=30: eng.usage(days),
        (whole("days"),),
    ),
)
