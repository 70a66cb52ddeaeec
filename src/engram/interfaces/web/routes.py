"""The addresses of the pages, and how a request for one is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...errors import EngramError, Forbidden, InvalidInput, Unauthorized
from ..http import answers, calls, guard
from ..http.answers import Answer, Receive, Scope, Send, send_answer
from ..http.html import tag
from ..http.pages import problem_answer
from . import blocks, dream_report, dreams, graph, memory, now, one_memory, portrait, search, session, system, time
from .frame import Counts, Page, framed, navigation_alone, navigation_page, writer_alone, writer_page
from .request import PageRequest, link, unmarked
from .static import static

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...client import Engram
    from ..http.calls import Kind
    from ..http.service import Service

Render = Callable[[PageRequest], Page]
Frame = Callable[[PageRequest, Page, Counts], bytes]
_HTML = (b"content-type", b"text/html; charset=utf-8")
#: The browser tells its own pages where a form comes from. Other sites learn nothing.
_REFERRER = (b"referrer-policy", b"same-origin")
#: More than any page needs.
_MOST_FIELDS = 200

#: Below `/w/WORKSPACE/`.
PAGES: dict[str, Render] = {
    "": now.page,
    "search": search.page,
    "sessions/{id:path}": session.page,
    "memories/{id}": one_memory.page,
    "memory": memory.page,
    "blocks": blocks.page,
    "blocks/{name:path}": blocks.block_page,
    "time": time.page,
    "graph": graph.page,
    "system": system.page,
    "system/sizes": system.sizes_page,
    "system/health": system.health_page,
    "dreams": dreams.page,
    "dreams/{id}": dream_report.page,
    "portrait": portrait.page,
}
#: Pages that use a model or read the whole store, so that they do not keep short reads waiting.
_LONG = frozenset({"search", "memory", "memories/{id}", "graph", "dreams", "system/sizes", "system/health"})


def add(app: FastAPI, service: Service) -> None:
    for path, render in PAGES.items():
        kind: Kind = "long work" if path in _LONG else "reads"
        template = f"/w/{{workspace}}/{path}"
        calls.add(app, template, ["GET"], _Endpoint(service, template, render, kind))
    for path, render, frame in (
        ("navigation", navigation_page, navigation_alone),
        ("writer", writer_page, writer_alone),
    ):
        template = f"/w/{{workspace}}/{path}"
        calls.add(app, template, ["GET"], _Endpoint(service, template, render, "reads", frame))
    app.add_route("/static/{name}", static, methods=["GET"])

    async def home(request: Request) -> Response:
        """The dashboard begins with the workspace of the person's token, else with the server's."""
        request.scope[calls.ROUTE] = "/"
        grant = await guard.caller_of(request.scope).verify()
        return RedirectResponse(link(grant.workspace or service.eng.workspace_name), 303)

    async def workspace(request: Request) -> Response:
        """The address of a workspace that was typed without its last sign."""
        request.scope[calls.ROUTE] = "/w/{workspace}"
        return RedirectResponse(link(request.path_params["workspace"]), 303)

    app.add_route("/", home, methods=["GET"])
    app.add_route("/w/{workspace}", workspace, methods=["GET"])


class _Endpoint:
    def __init__(self, service: Service, template: str, render: Render, kind: Kind, frame: Frame = framed) -> None:
        self._service = service
        self._template = template
        self._render = render
        self._frame = frame
        self._kind: Kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[calls.ROUTE] = self._template
        answer = await self._service.run(self._kind, lambda: self._answer(scope))
        await send_answer(send, answer, body=scope["method"] != "HEAD")

    def _answer(self, scope: Scope) -> Answer:
        """The page, or one that says what is wrong. In a thread."""
        caller = guard.caller_of(scope)
        try:
            answer = self._page(scope)
        except Unauthorized:
            # The guard shows where to log in.
            raise
        except EngramError as error:
            answer = problem_answer(error)
        except Exception as error:
            answers.mistake(error, self._template)
            answer = problem_answer(None)
        accepted = caller.headers.get(b"accept-encoding")
        return answer if accepted is None else answers.compressed(answer, accepted)

    def _page(self, scope: Scope) -> Answer:
        service, caller = self._service, guard.caller_of(scope)
        path = {name: unmarked(part) for name, part in scope["path_params"].items()}
        workspace = path.pop("workspace")
        grant = caller.grant()
        if grant.workspace not in (None, workspace):
            only = grant.workspace
            raise Forbidden(f"Your token is for the workspace {only} only. Its pages are at {link(only)}.")
        eng = service.facade(grant, "read", workspace)
        caller.used = workspace
        request = PageRequest(
            eng,
            grant,
            _workspaces(service, grant.workspace, workspace),
            path,
            _query(scope),
            eng.now(),
            service.places.base(scope),
            # Before anything is read, so that no change is missed.
            eng.changes.latest,
            service.options.dream,
        )
        try:
            page = self._render(request)
        except EngramError as error:
            if isinstance(error, Unauthorized):
                raise
            page = _problem(request, error)
        return Answer(page.status, self._frame(request, page, counts(eng)), (_HTML, _REFERRER))


def counts(eng: Engram) -> Counts:
    """What waits for the person."""
    waiting = eng.waiting()
    return Counts(waiting.messages, waiting.memories, waiting.proposals)


def _workspaces(service: Service, only: str | None, current: str) -> list[str]:
    """The workspaces that the person may see, and the current one, which may not have been written to."""
    if only is not None:
        return [only]
    return sorted({service.eng.workspace_name, current, *service.eng.workspace_names()})


def _query(scope: Scope) -> dict[str, list[str]]:
    try:
        return parse_qs(scope["query_string"].decode("ascii"), max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise InvalidInput("The address of this page cannot be read. Follow a link instead of editing it.") from None


def _problem(request: PageRequest, error: EngramError) -> Page:
    """A page that could not be made, inside the frame, so that the person finds the way on."""
    back = tag("p", tag("a", "To the page Now", href=request.link(), class_="button second"))
    body = tag("section", tag("p", error.message), back, class_="card", id="problem", data_status=str(error.status))
    titles = {404: "This is not here", 403: "This is not allowed", 400: "This address does not work"}
    return Page("now", titles.get(error.status, "This did not work"), body, status=error.status, title="Problem")
