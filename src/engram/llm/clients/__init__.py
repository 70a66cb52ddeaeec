"""The harness clients that a user already pays for, as thinkers: Claude Code, Codex and Gemini CLI.

A client runs in its non-interactive mode as a child process, once for each question:

- The prompt goes to its standard input. Other users of the machine can read a command line.
- It has no tools, and reads none of its own settings, hooks, MCP servers and memories, as far as it can be told so. The
  user's login stays. Engram's hooks and MCP server, which see the mark in the environment, do nothing.
- A client expands mentions in a prompt: `@file` becomes the file's content, `$name` a skill. Quoted text could
  therefore read any file, so these characters are written as JSON escapes.
- It runs in an empty folder. What it keeps of a conversation is kept there or not at all, and removed with the folder.
- The time limit and the death of Engram end it, with every process that it has started (`supervisor`).

`model_calls` does everything else: counting, asking once more, reading and cutting the answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, NamedTuple

from ... import tokens
from ...errors import LLMMalformed, LLMUnavailable
from ..model_calls import CallFailed, Reply, Request, reason
from ..protocol import Usage
from . import programs
from .running import Ended, Place, place, run

#: Set for a client and its children. `engram-hook` and `engram mcp` exit at once when they see it.
MARK: Final = "ENGRAM_THINKER"

#: Variables that every client gets. Its own module names those of its login. No others are passed on: a shell has other
#: keys, and some variables (NODE_OPTIONS) would change what runs.
_NAMES: Final = (
    *("HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
_PREFIXES: Final = ("LC_", "XDG_")


class Call(NamedTuple):
    """What a client is started with for one question."""

    arguments: list[str]
    #: Variables besides those that are passed on.
    environment: dict[str, str]


class Client(NamedTuple):
    """One client: how it is started, and how its answer is read."""

    name: str
    title: str
    program: str
    #: The smallest model that it offers.
    model: str
    #: The variables of its login that it gets from the environment, by name and by beginning.
    variables: tuple[str, ...]
    prefixes: tuple[str, ...]
    #: Characters at which it would expand a mention.
    mentions: str
    #: What to type to log in.
    login: str
    #: Prepares one question in the folder of the run: the program, the model, the request.
    call: Callable[[Place, str, str, Request], Call]
    #: Reads the output of a run that ended by itself; CallFailed when there is no answer.
    reply: Callable[[Ended], Reply]


#: The names of the clients, and the modules that define them.
MODULES: Final = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini"}


def client(name: str) -> Client:
    found: Client = import_module(f".{MODULES[name]}", __name__).CLIENT
    return found


class ClientModel:
    """A client with one of its models, for `Served`."""

    def __init__(self, client: Client, model: str, program: str, *, timeout: float) -> None:
        self.name = f"{client.name}:{model}"
        self._client = client
        self._model = model
        self._program = program
        self._timeout = timeout

    def where(self) -> str:
        if os.environ.get(MARK):
            raise LLMUnavailable(f"Engram does not think inside a thinker: {MARK} is set.")
        programs.require(self._program, self._client.name)
        return f"{self._client.title} with the model {self._model!r}"

    def ask(self, request: Request) -> Reply:
        client = self._client
        with place() as where:
            call = client.call(where, self._program, self._model, request)
            variables = environment(client, os.environ, where, self._program) | call.environment
            text = _hidden(_one_text(request), client.mentions)
            ended = run(where, [self._program, *call.arguments], variables, text, limit=self._timeout)
        _require_ended(ended, self._timeout, tokens.estimate(text))
        reply = client.reply(ended)
        return reply._replace(text=_shown(reply.text, client.mentions) if request.schema is None else reply.text)


def environment(client: Client, given: Mapping[str, str], where: Place, program: str) -> dict[str, str]:
    """The variables that a client runs with."""
    names, prefixes = {*_NAMES, *client.variables}, _PREFIXES + client.prefixes
    kept = {name: value for name, value in given.items() if name in names or name.startswith(prefixes)}
    own = {
        MARK: "1",
        "PATH": programs.search_path(program),
        # What it writes to the system's temporary folder goes with the folder of the run.
        "TMPDIR": where.folder,
        "NO_COLOR": "1",
    }
    return kept | own


def _one_text(request: Request) -> str:
    """All turns as one text: a client's non-interactive mode takes one prompt."""
    first, *others = request.turns
    labels = {"assistant": "Your earlier answer:", "user": "About that answer:"}
    return "\n\n".join([first.text, *(f"{labels[turn.role]}\n{turn.text}" for turn in others)])


def _hidden(text: str, mentions: str) -> str:
    """The text without characters at which the client would expand a mention. Quoted data is JSON, so it stays the
    same."""
    for character in mentions:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _shown(text: str, mentions: str) -> str:
    """A plain answer in which the model has repeated the escapes."""
    for character in mentions:
        text = text.replace(f"\\u{ord(character):04x}", character)
    return text


def _require_ended(ended: Ended, timeout: float, asked: int) -> None:
    # What a client has read before it was ended is paid for, and it cannot report it any more.
    spent = Usage(1, asked, 0)
    if ended.too_much:
        raise CallFailed("wrote far more than an answer, and was ended.", kind=LLMMalformed, usage=spent)
    if ended.how == "timeout":
        raise CallFailed(f"did not answer within {timeout:g} seconds, and was ended (llm_timeout).", usage=spent)
    if ended.how == "failed":
        raise CallFailed(f"cannot be started: {reason(ended.detail)}")
    if ended.how == "signal":
        raise CallFailed(f"was killed (signal {ended.detail}).", usage=spent)
    if ended.how != "exit":
        raise CallFailed("was ended before it answered.", usage=spent)


def not_logged_in(client: Client) -> CallFailed:
    return CallFailed(f"is not logged in. {client.login}")


def no_answer(ended: Ended) -> CallFailed:
    """The error for a run that ended without an answer. The last line of its messages usually says why."""
    lines = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    if ended.detail == "127":
        return CallFailed(f"cannot be started: {reason(lines[-1] if lines else 'its interpreter is missing')}")
    said = f": {reason(lines[-1])}" if lines else "."
    kind = LLMMalformed if ended.detail == "0" else LLMUnavailable
    return CallFailed(f"ended with code {ended.detail} and gave no answer{said}", kind=kind)
