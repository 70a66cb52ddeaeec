"""`Engram` over HTTP: each method of the facade's groups that `calls` lists becomes one request.

A group's class is made from its local class, so signatures and documentation are the same, and methods that are made of
others work unchanged: `leases.hold` claims, renews and releases over the network. Any other method needs the store's
engine. It finds a `RemoteStore` in its place, which raises NotRemote.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, NoReturn

from .. import checks, errors
from ..coordination.leases import Leases
from ..coordination.messages import EVERYBODY, Messages
from ..coordination.projects import project_here
from ..coordination.sessions import Sessions
from ..errors import EngramError, InvalidInput, LeaseHeld, NotRemote, StoreUnavailable, Unauthorized
from ..memory.blocks import Blocks, World
from ..memory.embedding_queue import EmbeddingQueue
from ..memory.exchanges import Exchanges
from ..memory.injections import Injections
from ..memory.memories import Memories
from ..records import PERSON
from ..redact import clean, redact
from . import wire
from .calls import CALLS, JSON, NAMES, NOT_SENT, PROPERTIES, SLOW, SPECIAL
from .transport import ANSWER_WITHIN, Answered, Transport

if TYPE_CHECKING:
    from ..client import Engram
    from ..clock import Clock
    from ..config import Config
    from ..dreaming.scheduler import Scheduler
    from ..overview_records import Graph
    from ..records import Lease
    from ..store_view import StoreView

#: Seconds that a call may take which works through much, or asks a model.
LONG = 3_600.0
#: Seconds that a claim waits on the server before it is asked for again.
WAIT_STEP = 5.0


class RemoteStore:
    """Takes the place of an engine. It knows the server; all other use of it is NotRemote."""

    name = "remote"
    #: No call is part of a transaction of the caller.
    joined = False

    def __init__(self, settings: Config, clock: Clock) -> None:
        if not settings.token:
            raise Unauthorized(
                f"The server {settings.url} needs a token: set ENGRAM_TOKEN, or `token` in config.toml. "
                "`engram token create` makes one on the server's machine."
            )
        self.clock = clock
        self._config = settings
        #: The workspace that the server chose for calls that named none, once it has answered one.
        self._chosen: str | None = None
        self._transport = Transport(settings.url, settings.token, clock)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotRemote()

    def call(self, workspace: str, name: str, options: Mapping[str, Any]) -> Any:
        """The result of a call on the server. Without a workspace, the token's counts, else the server's."""
        sent = {key: _sendable(key, value) for key, value in options.items()}
        body = wire.to_json({"options": sent, "project": project_here(self._config)}).encode()
        # Every call has a key. The server ignores that of one which only reads.
        headers = {"Idempotency-Key": os.urandom(16).hex()} | ({"X-Engram-Workspace": workspace} if workspace else {})
        wait = options.get("wait") if isinstance(options.get("wait"), int | float) else 0
        within = LONG if name in SLOW else ANSWER_WITHIN + min(max(wait or 0, 0), LONG)
        result, used = _result(self._transport.post(f"/api/v1/library/{name}", body, headers, within=within))
        if not workspace:
            self._chosen = used
        return result

    def chosen_workspace(self) -> str:
        """The workspace of calls that name none."""
        if self._chosen is None:
            self.call("", "now", {})
        # An older server does not tell.
        return self._chosen or self._config.workspace

    def close(self) -> None:
        self._transport.close()


class _RemoteFacade:
    """What the facade does in another way over the network. `facade` joins it with the local one."""

    _view: StoreView

    def _compose(self, view: StoreView, trial: str | None) -> None:
        self._view = view
        self._trial = trial
        self.sessions = _proxy(Sessions, "sessions")(view)
        self.leases = _RemoteLeases(view)
        self.messages = _RemoteMessages(view)
        self.blocks = _proxy(Blocks, "blocks")(view)
        self.world = World(self.blocks)
        self.exchanges = _proxy(Exchanges, "exchanges")(view)
        self.injections = _proxy(Injections, "injections")(view)
        self.embedding_queue = self.backlog = _RemoteEmbeddingQueue(view)
        self.memories = _proxy(Memories, "memories")(view)
        self.remember = self.memories.remember

    @property
    def workspace_name(self) -> str:
        """The name of the workspace. If none was named, it is the token's, else the server's."""
        store: Any = self._view.engine
        return self._view.workspace or str(store.chosen_workspace())

    def as_author(self, name: str | None) -> Engram:
        """Not over the network: the author is the name of the token."""
        raise NotRemote("Over the network the author is the name of the token.")

    def scheduler(self, every: float = 21_600.0, **options: Any) -> Scheduler:
        """Not over the network: the server dreams by itself."""
        raise NotRemote("The server dreams by itself; a scheduler is for a store of this process.")

    def graph(self, kind: str, id: int | str, *, limit: int = 60) -> Graph:
        """As locally. A file is looked up here, where it is."""
        named = Leases.normalise(id) if kind == "file" and isinstance(id, str) else id
        store: Any = self._view.engine
        found: Graph = store.call(self._view.workspace, "graph", {"kind": kind, "id": named, "limit": limit})
        return found

    @contextmanager
    def write(self, *, fence: int | None = None) -> Iterator[Engram]:
        """Not over the network: a transaction of several calls would keep all other writers waiting for this client."""
        raise NotRemote("write() cannot be used with a server: each call is a transaction of its own.")
        yield


@cache
def facade(local: type[Engram]) -> type[Engram]:
    """The class of a facade over the network, made from the class of the local one."""
    members: dict[str, Any] = {
        name: _facade_call(getattr(local, name), name) for name in CALLS[""] if name not in vars(_RemoteFacade)
    }
    members |= {name: _group_property(name, place) for name, place in _LAZY.items()}
    return type("RemoteEngram", (_RemoteFacade, local), members)


def _facade_call(local: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A method of the facade itself, over the network."""
    named = _naming(local)

    @wraps(local)
    def call(self: _RemoteFacade, *given: Any, **options: Any) -> Any:
        store: Any = self._view.engine
        return store.call(self._view.workspace, name, named(given, options))

    return call


def _group_property(group: str, place: str) -> property:
    """A group whose local class is imported when it is used."""
    module, _, kind = place.partition(":")

    def get(self: Any) -> Any:
        return _proxy(getattr(import_module(f"..{module}", __package__), kind), group)(self._view)

    return property(get)


#: The groups that the facade makes on first use, and their classes. Those without a row in `calls` refuse every call.
_LAZY = {
    "access": "access.access:Access",
    "changes": "storage.changes:Changes",
    "dreams": "dreaming.passes:Dreams",
    "embedders": "memory.embedders:Embedders",
    "eras": "memory.eras:Eras",
    "gists": "memory.gists:Gists",
    "harness_processes": "coordination.harness_processes:HarnessProcesses",
    "imports": "coordination.imports:Imports",
    "lease_notices": "coordination.lease_notices:LeaseNotices",
    "proposals": "dreaming.proposals:Proposals",
    "thinkers": "dreaming.thinkers:Thinkers",
    "transcripts": "memory.transcripts:Transcripts",
    "work": "dreaming.agent_queue:Work",
}

#: Methods that are made of others, or need no store: they are those of the local class.
_COMPOSED = {
    "access": ("require", "author_of"),
    "blocks": ("missing",),
    "changes": ("wait",),
    "harness_processes": ("confirm", "current", "of", "runs_elsewhere"),
    "leases": ("escape", "hold", "normalise"),
    "messages": ("showing", "showing_person"),
}
#: Groups within a group.
_INNER = {"access.tokens": "access.tokens:Tokens", "access.clients": "access.clients:Clients"}


class _Remote:
    """What the classes of all groups have in common."""

    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine: Any = view.engine
        self._workspace = view.workspace
        self._config = view.config

    def __getattr__(self, name: str) -> NoReturn:
        # Something that only a local group has.
        raise NotRemote() if not name.startswith("__") else AttributeError(name)


@cache
def _proxy(local: type, group: str) -> Any:
    """The class of a group: its calls are requests, and everything else is that of the local class."""
    members: dict[str, Any] = {}
    for method in CALLS.get(group, {}):
        name = f"{group}.{method}"
        if (group, method) in PROPERTIES:
            members[method] = property(_method(getattr(local, method).fget, name))
        else:
            python_name = SPECIAL.get((group, method), method)
            members[python_name] = _method(getattr(local, python_name), name)
    members |= {
        place.rpartition(".")[2]: _group_property(place, _INNER[place])
        for place in _INNER
        if place.startswith(f"{group}.")
    }
    for name, value in vars(local).items():
        if not name.startswith("_") and name not in members and name not in _COMPOSED.get(group, ()):
            members[name] = property(_refused) if isinstance(value, property) else _refused
    return type(local.__name__, (_Remote, local), members)


def _method(local: Callable[..., Any], name: str) -> Callable[..., Any]:
    named = _naming(local)

    @wraps(local)
    def call(self: Any, *given: Any, **options: Any) -> Any:
        return self._engine.call(self._workspace, name, named(given, options))

    return call


def _refused(self: object, *_: object, **__: object) -> NoReturn:
    raise NotRemote()


def _naming(local: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """What gives every argument of a method its name. TypeError for wrong arguments, as from the method itself."""
    form = signature(local)

    def named(given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        bound = form.bind(None, *given, **options).arguments
        bound.pop("self", None)
        for each in form.parameters.values():
            if each.kind is Parameter.VAR_KEYWORD:
                bound |= bound.pop(each.name, {})
        return {name: value for name, value in bound.items() if name not in NOT_SENT}

    return named


class _RemoteLeases(_proxy(Leases, "leases")):  # type: ignore[misc]
    """Leases whose resources are worked out here, where their files are."""

    def claim(self, session_id: str, resource: str, *given: Any, **options: Any) -> Lease:
        lease: Lease = super().claim(session_id, self.normalise(resource), *given, **options)
        return lease

    def release(self, session_id: str, resource: str) -> Lease:
        lease: Lease = super().release(session_id, self.normalise(resource))
        return lease

    def check(self, resource: str) -> Any:
        return super().check(self.normalise(resource))

    def break_lease(self, resource: str, by: str | None, reason: str, **options: Any) -> Any:
        return super().break_lease(self.normalise(resource), by, reason, **options)

    def line_up(
        self, session_id: str, resource: str, note: str | None = None, *, ttl: float | None = None, wait: float
    ) -> _RemoteWaiter:
        checks.seconds(wait, "wait")

        def claim(within: float) -> Lease:
            return self.claim(session_id, resource, note, exclusive=True, ttl=ttl, wait=within)

        return _RemoteWaiter(claim, wait, self._engine.clock)


class _RemoteWaiter:
    """A claim that waits its turn on the server, some seconds for each look."""

    #: The server waits, so the next look need not.
    pause = 0.0

    def __init__(self, claim: Callable[[float], Lease], wait: float, clock: Clock) -> None:
        self._claim = claim
        self._clock = clock
        self._deadline = clock.monotonic() + wait

    def look(self) -> Lease | None:
        left = max(0.0, self._deadline - self._clock.monotonic())
        try:
            return self._claim(min(left, WAIT_STEP))
        except LeaseHeld:
            if self._clock.monotonic() >= self._deadline:
                raise
            return None

    def sleep(self) -> None:
        pass

    def leave(self) -> None:
        pass

    def __enter__(self) -> _RemoteWaiter:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _RemoteMessages(_proxy(Messages, "messages")):  # type: ignore[misc]
    def send(self, from_session: str | None, to: str, text: str, *, resource: str | None = None) -> Any:
        if resource is None and to not in (EVERYBODY, PERSON):
            # It may be a session's id as well, which the server looks for first.
            with suppress(InvalidInput):
                resource = Leases.normalise(to)
        return super().send(from_session, to, text, resource=resource)


class _RemoteEmbeddingQueue(_proxy(EmbeddingQueue, "embedding_queue")):  # type: ignore[misc]
    """The server has the model, and works through its queue by itself."""

    def embedder(self) -> None:
        return None

    def warm_later(self) -> None:
        pass

    def warm(self) -> None:
        pass

    def is_warm(self, within: float = 0.0) -> bool:
        return True

    def reasons(self) -> AbstractContextManager[list[str]]:
        return nullcontext([])

    def index_words(self, enough: Callable[[], bool] | None = None) -> None:
        pass


def _sendable(name: str, value: Any) -> Any:
    """An argument as it is sent. InvalidInput for what cannot be sent, and cannot be stored either."""
    try:
        return wire.pack(_without_secrets(name, value))
    except TypeError as error:
        raise InvalidInput(f"{name}: {error}.") from None
    except RecursionError:
        raise InvalidInput(f"{name} is nested too deeply.") from None


def _without_secrets(name: str, value: Any) -> Any:
    """An argument without secrets. A name that holds one is refused, as it is locally."""
    if isinstance(value, str):
        return checks.without_secrets(value, name.replace("_", " ")) if name in NAMES else redact(value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(_without_secrets("", each) for each in value)
    if name in JSON:
        # What is beside a value may show that it is a secret.
        return clean(value)
    if isinstance(value, Mapping):
        inner = name if name in NAMES else ""
        return {_without_secrets(inner, key): _without_secrets(inner, each) for key, each in value.items()}
    if isinstance(value, tuple | set | frozenset):
        return type(value)(_without_secrets(name, each) for each in value)
    return [_without_secrets(name, each) for each in value] if isinstance(value, Iterable) else value


def _result(answer: Answered) -> tuple[Any, str | None]:
    """The result that the server sent, and the workspace that it is about; or the error that it raised."""
    try:
        content = json.loads(answer.body)
        if answer.status == 200:
            return wire.unpack(content["result"]), content.get("workspace")
        error = content["error"]
        raise raised(error, answer.status)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise StoreUnavailable(
            f"The server's answer (status {answer.status}) cannot be read. Is it Engram, in about the same version?"
        ) from None


def raised(error: Mapping[str, Any], status: int) -> EngramError:
    """The error that a server sent, of the class that the server raised."""
    kind = _by_code().get(error["code"], EngramError)
    made = kind.__new__(kind)
    text = error.get("text") or error["message"]
    Exception.__init__(made, text)
    made.message = error.get("message") or text
    for name, value in wire.unpack(error.get("is") or {}).items():
        if name.isidentifier() and not name.startswith("_"):
            setattr(made, name, value)
    return made


@cache
def _by_code() -> dict[str, type[EngramError]]:
    return {
        kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EngramError)
    }
