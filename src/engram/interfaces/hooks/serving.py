"""Answers an event that a hook on another machine has sent; `sending` makes the request.

The event is handled as a local one is. The client has resolved its project and its files, has read its transcript and
has taken the secrets out. Nothing of that is looked up here: this machine has other folders and other processes. A
process is named by its machine, so a client's process is never taken for one of this machine; whether it still runs is
unknown here, unless both are the same machine.

A request is checked completely before anything is done. Secrets are taken out again by the store itself, because a
client could be of another make.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import checks
from ...config import SETTINGS
from ...errors import InvalidInput
from ...harness_messages import LONGEST_GIST, Message
from ...harness_payloads import LONGEST
from ...remote.names import stored_file
from . import events
from .events import Told
from .handlers import KINDS, Handling
from .place import File
from .preparing import REASON_LENGTH, SUMMARY_LENGTH
from .sending import VERSION
from .spoken import MOST
from .transcript import Spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...client import Engram
    from .injection import Recall

#: The most files of one tool, as `harness_payloads` reads them.
_MOST_FILES = 50
_MOST_TURNS = 2
_LINE_LENGTH = 400
_LONGEST_PATH = 4_096
#: `<boot of the machine>/<namespace>/<id>/<start time>`, as `processes` writes it.
_PROCESS = re.compile(r"[0-9a-f-]{36}/pid:\[[0-9]{1,20}\]/[0-9]{1,12}/[0-9]{1,24}", re.ASCII)
_POLICIES = next(setting.choices for setting in SETTINGS if setting.name == "lock_policy")


class Served(NamedTuple):
    #: The answer for the harness, as plain data.
    result: dict[str, str]
    #: Call one of them after the answer was sent, or could not be sent. Both may take a while.
    delivered: Callable[[], None]
    lost: Callable[[], None]


class Elsewhere(NamedTuple):
    """The agent's machine, as its hook describes it; see `place.Place`."""

    project: str | None
    process: str | None
    runs_one: bool
    lock_policy: str
    brief_budget: int
    may_dream: bool
    files: Sequence[File]
    turns: list[Spoken]
    gist: str

    @property
    def has_transcript(self) -> bool:
        return bool(self.turns)

    def spoken(self) -> list[Spoken]:
        return self.turns

    def summary(self) -> str:
        return self.gist


def answer(
    eng: Engram,
    request: Mapping[str, object],
    *,
    is_first: Callable[[], bool] | None = None,
    recall: Recall | None = None,
    start_pass: Callable[[Engram], None] | None = None,
    enough: Callable[[], bool] | None = None,
) -> Served:
    """Handle an event. InvalidInput for a malformed request, of which nothing is done.

    `is_first` is called in the transaction that records the event, and returns False if an earlier attempt has done
    that. `recall` recalls by meaning, if the model is loaded; without it, words decide. `start_pass` is called after
    the end of a session. Words are indexed after the answer until `enough` returns True.
    """
    told, place = _parsed(request)
    # Nothing that the event names is looked up on this machine.
    eng = eng.from_elsewhere(place.project)
    handling = Handling(eng, told, place, is_first=is_first or _always, recall=recall or _not_by_meaning)
    given = handling.answer()

    def delivered() -> None:
        handling.delivered()
        eng.backlog.index_words(enough or _never)
        if handling.may_dream and start_pass is not None:
            start_pass(eng)

    return Served(given._asdict(), delivered, handling.lost)


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _not_by_meaning(*_: object) -> None:
    return None


def _parsed(request: Mapping[str, object]) -> tuple[Told, Elsewhere]:
    version = request.get("version")
    if version != VERSION or isinstance(version, bool):
        raise InvalidInput(
            f"This server takes version {VERSION} of a hook's requests. Upgrade the older one of client and server."
        )
    given = _Fields(request, "request")
    given.take("version")
    told = _told(_Fields(given.take("event"), "event"))
    place = _place(_Fields(given.take("place"), "place"))
    given.end()
    return told, place


def _told(given: _Fields) -> Told:
    told = Told(
        kind=given.choice("kind", KINDS),
        harness=given.name("harness"),
        session=given.name("session"),
        parent=given.optional_name("parent"),
        name=given.optional_name("name"),
        task=given.text("task", SUMMARY_LENGTH),
        text=given.text("text", LONGEST),
        line=given.text("line", _LINE_LENGTH),
        failed=given.flag("failed"),
        reason=given.text("reason", REASON_LENGTH),
        takes_context=given.flag("takes_context"),
        in_background=given.flag("in_background"),
        warn_late=given.flag("warn_late"),
        can_ask=given.flag("can_ask"),
    )
    given.end()
    if told.kind == events.AFTER_TOOL and not told.line:
        raise InvalidInput("event.line is missing.")
    return told


def _place(given: _Fields) -> Elsewhere:
    process = given.optional_name("process")
    if process is not None and not _PROCESS.fullmatch(process):
        raise InvalidInput("place.process is not the name of a process.")
    place = Elsewhere(
        project=given.optional_name("project"),
        process=process,
        runs_one=given.flag("runs_one") and process is not None,
        lock_policy=given.choice("lock_policy", _POLICIES),
        brief_budget=checks.whole(given.take("brief_budget"), "place.brief_budget", least=0, most=1_000_000),
        may_dream=given.flag("may_dream"),
        files=[_file(each) for each in given.list("files", _MOST_FILES)],
        turns=[_spoken(each) for each in given.list("spoken", _MOST_TURNS)],
        gist=given.text("summary", LONGEST_GIST),
    )
    given.end()
    return place


def _file(given: object) -> File:
    path, resource = _several(given, 2, "place.files")
    return File(checks.text(path, "place.files", longest=_LONGEST_PATH), stored_file(resource))


def _spoken(given: object) -> Spoken:
    prompt, messages = _several(given, 2, "place.spoken")
    if not isinstance(messages, list) or len(messages) > MOST:
        raise InvalidInput(f"place.spoken has a list of at most {MOST} messages.")
    return Spoken(None if prompt is None else _message(prompt, empty=True), [_message(each) for each in messages])


def _message(given: object, *, empty: bool = False) -> Message:
    text, id, at = _several(given, 3, "place.spoken")
    return Message(
        checks.text(text, "place.spoken", longest=LONGEST + _LINE_LENGTH, empty=empty),
        checks.optional_new_name(id, "place.spoken"),
        checks.optional_moment(at, "place.spoken"),
    )


def _several(given: object, number: int, what: str) -> list[Any]:
    if not isinstance(given, list) or len(given) != number:
        raise InvalidInput(f"{what} has lists of {number} values.")
    return given


class _Fields:
    """An object of a request. Each field is taken once; what is left at the end is an error."""

    def __init__(self, given: object, what: str) -> None:
        if not isinstance(given, dict):
            raise InvalidInput(f"{what} must be an object.")
        self._left = dict(given)
        self._what = what

    def take(self, name: str, default: object = None) -> object:
        return self._left.pop(name, default)

    def end(self) -> None:
        if self._left:
            raise InvalidInput(f"{self._what} has {len(self._left)} unknown fields.")

    def text(self, name: str, longest: int) -> str:
        return checks.text(self.take(name, ""), f"{self._what}.{name}", longest=longest, empty=True)

    def name(self, name: str) -> str:
        return checks.new_name(self.take(name), f"{self._what}.{name}")

    def optional_name(self, name: str) -> str | None:
        return checks.optional_new_name(self.take(name), f"{self._what}.{name}")

    def flag(self, name: str) -> bool:
        return checks.flag(self.take(name, False), f"{self._what}.{name}")

    def choice(self, name: str, choices: Sequence[str]) -> str:
        value = self.take(name)
        if not isinstance(value, str) or value not in choices:
            raise InvalidInput(f"{self._what}.{name} must be one of: {', '.join(choices)}.")
        return value

    def list(self, name: str, most: int) -> list[Any]:
        value = self.take(name, [])
        if not isinstance(value, list) or len(value) > most:
            raise InvalidInput(f"{self._what}.{name} must be a list of at most {most}.")
        return value
