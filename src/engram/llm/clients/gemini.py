"""Gemini CLI: `gemini` with a prompt on its standard input.

It cannot be told to write no transcript, nor to leave out the user's settings. So it gets a home of its own in the
folder of the run (GEMINI_CLI_HOME), with settings that offer no tools, and with links to the user's login. It takes no
schema; the prompt has it in words.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any, Final

from ...errors import LLMMalformed
from ..model_calls import CallFailed, Reply, Request, reason
from ..protocol import Usage
from . import Call, Client, no_answer, not_logged_in
from .running import Ended, Place

#: Files of the login in `~/.gemini`.
_LOGIN: Final = ("oauth_creds.json", "google_accounts.json", "gemini-credentials.json", "installation_id", ".env")
#: No tool has this name, so no tool is offered.
_NO_TOOL: Final = "none"
_SETTINGS: Final[dict[str, Any]] = {
    "tools": {"core": [_NO_TOOL]},
    "hooksConfig": {"enabled": False},
    "skills": {"enabled": False},
    "experimental": {"enableAgents": False},
    "context": {"fileName": "no-memory-of-this-name.md"},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False},
    "model": {"maxSessionTurns": 3},
}
#: A second lock on the same door.
_POLICY: Final = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'
#: Its exit codes for a missing login, and for a model that keeps asking for tools.
_NO_LOGIN, _TURNS = "41", "53"


def _call(where: Place, program: str, model: str, request: Request) -> Call:
    user = os.path.join(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")
    settings = where.file("home/.gemini/settings.json", json.dumps(_SETTINGS | _login(user)))
    own = os.path.dirname(settings)
    for name in _LOGIN:
        if os.path.exists(os.path.join(user, name)):
            os.symlink(os.path.join(user, name), os.path.join(own, name))
    policy = where.file("policy.toml", _POLICY)
    arguments = ["--output-format", "json", "--model", model, "--extensions", "none", "--skip-trust"]
    arguments += ["--allowed-mcp-server-names", "none", "--policy", policy]
    variables = {
        "GEMINI_CLI_HOME": os.path.dirname(own),
        "GEMINI_SYSTEM_MD": where.file("system.md", request.system or "Answer the question."),
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    return Call(arguments, variables)


def _login(folder: str) -> dict[str, Any]:
    """How the user logs in, from their own settings."""
    with suppress(OSError, ValueError, RecursionError, AttributeError):
        with open(os.path.join(folder, "settings.json"), encoding="utf-8") as file:
            kind = json.loads(_without_comments(file.read())).get("security", {}).get("auth", {}).get("selectedType")
        if isinstance(kind, str):
            return {"security": {"auth": {"selectedType": kind}}}
    return {}


def _without_comments(text: str) -> str:
    """JSON without the comments that Gemini CLI allows in its settings."""
    import re

    # A text or comment that does not end goes to the end, so that the time stays linear.
    pattern = re.compile(r'("(?:\\.|[^"\\])*+"?)|//[^\n]*+|/\*.*?(?:\*/|\Z)', re.DOTALL)
    return pattern.sub(lambda found: found[1] or "", text)


def _reply(ended: Ended) -> Reply:
    said = _parsed(ended.output) or _parsed(ended.errors)
    failure = str((said.get("error") or {}).get("message") or "")
    usage = _usage(said.get("stats"))
    if ended.detail == _NO_LOGIN:
        raise not_logged_in(CLIENT)
    if ended.detail == _TURNS:
        raise CallFailed("asked for tools instead of answering.", kind=LLMMalformed, usage=usage)
    if failure:
        raise CallFailed(f"failed: {reason(failure)}", usage=usage)
    if ended.detail != "0" or "response" not in said:
        raise no_answer(ended)
    return Reply(str(said["response"] or ""), usage)


def _parsed(text: str) -> dict[str, Any]:
    """The JSON object in an output. Warnings may stand before it."""
    start = text.find("{")
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(0, start))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _usage(stats: Any) -> Usage | None:
    try:
        counted = [each["tokens"] for each in stats["models"].values()]
        asked = sum(int(each["prompt"]) for each in counted)
        return Usage(1, asked, sum(int(each["candidates"]) + int(each.get("thoughts", 0)) for each in counted))
    except (TypeError, KeyError, AttributeError, ValueError):
        return None


CLIENT: Final = Client(
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    model="flash-lite",
    variables=("GEMINI_API_KEY",),
    prefixes=("GOOGLE_",),
    mentions="@",
    login="Run `gemini` in a terminal and log in.",
    call=_call,
    reply=_reply,
)
