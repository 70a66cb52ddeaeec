"""Hands an event to a server: one request, with everything that only this machine knows.

The request is repeated at most once, if the connection fails before anything of an answer comes. Both attempts have the
same key, so that the server records the event once. With several servers the second attempt goes to the next one.

Everything that is sent has a limit: texts are cut as they are for a local store, and the messages of a transcript are
left out if the request would be too large.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from ...redact import redact
from ...remote import names
from . import events, locks
from .events import Answer, Told
from .place import Here
from .preparing import prepare

if TYPE_CHECKING:
    from ...config import Config
    from ...remote import once
    from ...server_url import Server
    from .events import Event
    from .transcript import Spoken

PATH = "/api/v1/hook"
#: Changes whenever an old client or server would misread a request.
VERSION = 1
#: Bytes of a request.
MAX_REQUEST = 4 * 1024 * 1024
#: Seconds for reading a transcript at a prompt. Locally it is read only if the last turn was interrupted; here that is
#: not known, and most prompts do not need it.
_READ_AT_PROMPT = 0.1


class ServerRefused(Exception):
    """The server refused the event."""

    def __init__(self, status: int, code: str) -> None:
        #: The HTTP status of the answer; 0 if no token is set, so that nothing was sent.
        self.answered = status
        super().__init__(f"The server refused the event: {status} {code}.".replace(" .", "."))


def send(settings: Config, event: Event, harness: str, deadline: float) -> Answer:
    """The server's answer to an event. `deadline` is a time of the clock `monotonic`."""
    if not settings.token:
        raise ServerRefused(0, "no token is set")
    told = prepare(event, harness)
    here = Here(event, harness, settings, names.file_without_secrets, read_at_prompt=_READ_AT_PROMPT)
    here.project = names.project(settings)
    answer = _exchange(settings, _body(told, here), deadline)
    return _read(answer)


def request(told: Told, here: Here) -> dict[str, Any]:
    """The event and what its handler may ask about this machine. A value that is not there has its default."""
    place: dict[str, Any] = {
        "project": here.project,
        "process": here.process,
        "lock_policy": here.lock_policy,
        "brief_budget": here.brief_budget,
    }
    if told.kind == events.START:
        place["runs_one"] = here.runs_one
    if told.kind == events.END:
        place["may_dream"] = here.may_dream
    if _needs_files(told, here.lock_policy):
        place["files"] = [[redact(path), resource] for path, resource in here.files]
    if told.kind in (events.PROMPT, events.STOP, events.SUBAGENT_STOP) and here.has_transcript:
        place["spoken"] = [_plain(each) for each in here.spoken()]
    if told.kind == events.COMPACTED or (told.kind == events.START and told.reason == "compact"):
        place["summary"] = here.summary()
    given = {name: value for name, value in told._asdict().items() if value not in ("", None, False)}
    return {"version": VERSION, "event": given, "place": place}


def _needs_files(told: Told, policy: str) -> bool:
    if told.kind == events.BEFORE_TOOL:
        return policy != "off"
    late_or_allowed = locks.warns_late(told, policy) or locks.may_be_allowed(told, policy)
    return told.kind == events.AFTER_TOOL and late_or_allowed


def _plain(spoken: Spoken) -> list[Any]:
    return [spoken.prompt and list(spoken.prompt), [list(message) for message in spoken.messages]]


def _body(told: Told, here: Here) -> bytes:
    import json

    made = request(told, here)
    body = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) > MAX_REQUEST and made["place"].pop("spoken", None):
        body = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) > MAX_REQUEST:
        raise ValueError(f"the event is larger than {MAX_REQUEST:,} bytes")
    return body


def _exchange(settings: Config, body: bytes, deadline: float) -> once.Answer:
    from os import urandom

    from ...remote import once
    from ...server_url import servers

    headers = {"Authorization": f"Bearer {settings.token}", "Idempotency-Key": urandom(16).hex()}
    if settings.origins["workspace"] != "default":
        # Without the header, the token's workspace or the server's default counts.
        headers["X-Engram-Workspace"] = settings.workspace
    known = servers(settings.url)
    first, second = known[0], known[1 % len(known)]
    try:
        return once.post(first, PATH, headers, body, deadline=deadline, reach_by=_reach_by(known, deadline))
    except once.Disconnected:
        return once.post(second, PATH, headers, body, deadline=deadline, reach_by=deadline)


def _reach_by(known: list[Server], deadline: float) -> float:
    """If there is another server, the first one gets half of the time to accept a connection."""
    return deadline if len(known) == 1 else (monotonic() + deadline) / 2


def _read(answer: once.Answer) -> Answer:
    """The answer for the harness. Nothing of a refusal but its code is used: its message may quote the event."""
    import json

    from ...remote.once import Unanswered

    try:
        given = json.loads(answer.body)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        given = {}
    if answer.status != 200:
        error = given.get("error")
        code = error.get("code") if isinstance(error, dict) else ""
        raise ServerRefused(answer.status, str(code) if _is_code(code) else "")
    result = given.get("result")
    if (
        not isinstance(result, dict)
        or result.keys() != set(Answer._fields)
        or not all(isinstance(value, str) for value in result.values())
    ):
        raise Unanswered("The server's answer is not one to an event.")
    return Answer(**result)


def _is_code(code: object) -> bool:
    return isinstance(code, str) and len(code) <= 60 and code.isascii() and code.replace("_", "").isalpha()
