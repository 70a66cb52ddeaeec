"""What no operation of the table answers: the workspaces of the store, recent sessions, passes of all workspaces, and
the description of the interface itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import checks
from ...operations import Operation, Pages
from ...operations.inputs import CURSOR, LIMIT, number
from ...operations.pages import perform_page
from ...records import DreamReport, Session, WorkspaceInfo, plain
from . import answers, arguments, calls, events, metrics, openapi
from .answers import Answer
from .calls import Call

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...client import Engram
    from .service import Service

_WORKSPACES, _RECENT, _DREAMS = "/api/v1/workspaces", "/api/v1/sessions/recent", "/api/v1/dreams"
DESCRIPTION = "/api/v1/openapi.json"

_RECENT_INPUTS = Operation(
    "sessions.recent",
    "read",
    "Sessions completed within the last hours, the latest first.",
    lambda eng, hours=24.0: eng.sessions.recent(hours),
    (number("hours", "default 24"),),
)


def _dreams_of(engs: list[Engram], limit: int, start: tuple[int, ...]) -> list[DreamReport]:
    """The passes of several workspaces, newest first."""
    before = start[0] if start else None
    found = [report for eng in engs for report in eng.dreams.list(limit, before=before)]
    found.sort(key=lambda report: report.id or 0, reverse=True)
    return found[: limit or None]


_DREAMS_INPUTS = Operation(
    "dreams",
    "read",
    "Earlier passes in all workspaces that the token may see, newest first.",
    _dreams_of,
    (LIMIT, CURSOR),
    Pages(("id",), (int,), 20),
)


class Overview:
    def __init__(self, service: Service) -> None:
        self._service = service

    def workspaces(self, call: Call) -> object:
        """The workspaces that the token may see. One that was never written to is not among them."""
        only = call.caller.grant().workspace
        return plain([each for each in self._service.eng.workspaces() if only in (None, each.name)])

    def recent(self, call: Call) -> object:
        values = arguments.checked(_RECENT_INPUTS, call, arguments.in_query(_RECENT_INPUTS, call.query))
        return plain(_RECENT_INPUTS.handler(call.eng, **values))

    def dreams(self, call: Call) -> Answer:
        values = arguments.checked(_DREAMS_INPUTS, call, arguments.in_query(_DREAMS_INPUTS, call.query))
        checks.whole(values.get("limit", 20), "limit", least=0)
        grant = call.caller.grant()
        names = [grant.workspace] if grant.workspace else [each.name for each in self._service.eng.workspaces()]
        engs: Any = [self._service.facade(grant, "read", name) for name in names]
        page = perform_page(engs, _DREAMS_INPUTS, values)
        return answers.result(page.rows, next=page.next)


class Description:
    """The description of the interface. It is made once, when it is first asked for."""

    def __init__(self) -> None:
        self._made: bytes | None = None

    def __call__(self, call: Call) -> Answer:
        if self._made is None:
            self._made = answers.encoded(description())
        return Answer(200, self._made)


_PATHS = (
    openapi.Path(_WORKSPACES, "GET", "The workspaces that the token may see.", "workspace", list[WorkspaceInfo]),
    openapi.Path(
        _RECENT,
        "GET",
        _RECENT_INPUTS.help,
        "session",
        list[Session],
        (openapi.WORKSPACE_HEADER, *(openapi.parameter(each, {}) for each in _RECENT_INPUTS.inputs)),
    ),
    openapi.Path(
        _DREAMS,
        "GET",
        _DREAMS_INPUTS.help,
        "dream",
        list[DreamReport],
        tuple(openapi.parameter(each, {}) for each in _DREAMS_INPUTS.inputs),
        has_pages=True,
    ),
    openapi.Path(DESCRIPTION, "GET", "This description.", "workspace", responses={"200": openapi.ANY_JSON}),
)


def description() -> dict[str, Any]:
    """The whole description."""
    return openapi.describe([*_PATHS, events.describe(), metrics.describe()])


def add(app: FastAPI, service: Service) -> None:
    overview = Overview(service)
    for path, perform in (
        (_WORKSPACES, overview.workspaces),
        (_RECENT, overview.recent),
        (_DREAMS, overview.dreams),
        (DESCRIPTION, Description()),
    ):
        calls.add(app, path, ["GET"], calls.Endpoint(service, path, "read", perform))
