"""Claude Code: `claude --print`.

`--safe-mode` and `--setting-sources ""` leave out settings, hooks, memories (CLAUDE.md), plugins and skills, and keep
the login. `--no-session-persistence` writes no transcript. With a schema the client offers the model one tool, which
takes the answer and does nothing else; `--max-turns` ends a model that keeps asking for others.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ...errors import LLMFailed, LLMMalformed, LLMRefused, LLMTruncated
from ..model_calls import CallFailed, Reply, Request, reason
from ..protocol import Usage
from ..schemas import without_keywords
from . import Call, Client, no_answer, not_logged_in
from .running import Ended, Place

#: Limits that Engram cuts to itself. The client would ask the model again for each of them.
_LIMITS: Final = frozenset({"maxLength", "minItems", "maxItems", "minimum", "maximum"})
_TROUBLE: Final[dict[str, type[LLMFailed]]] = {"max_tokens": LLMTruncated, "refusal": LLMRefused}
#: Other servers of the same models.
_CLOUDS: Final = ("BEDROCK", "VERTEX", "FOUNDRY")
_FIXED: Final = (
    *("--print", "--output-format", "json", "--no-session-persistence", "--safe-mode", "--setting-sources", ""),
    *("--strict-mcp-config", "--disable-slash-commands", "--tools", ""),
    *("--max-turns", "3", "--effort", "low"),
)


def _call(where: Place, program: str, model: str, request: Request) -> Call:
    arguments = [*_FIXED, "--model", model]
    if request.system:
        arguments += ["--system-prompt-file", where.file("system.md", request.system)]
    if request.schema is not None:
        arguments += ["--json-schema", json.dumps(without_keywords(request.schema, _LIMITS))]
    variables = {
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(request.max_tokens),
        # Thoughts would be taken from these tokens.
        "CLAUDE_CODE_DISABLE_THINKING": "1",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return Call(arguments, variables)


def _reply(ended: Ended) -> Reply:
    try:
        said: Any = json.loads(ended.output)
        result, usage, turns = str(said.get("result") or ""), _usage(said.get("usage")), said.get("subtype")
    except (ValueError, AttributeError, RecursionError):
        raise no_answer(ended) from None
    if turns == "error_max_turns":
        raise CallFailed("asked for tools instead of answering.", kind=LLMMalformed, usage=usage)
    if "Not logged in" in result or "/login" in result:
        raise not_logged_in(CLIENT)
    if "output token maximum" in result:
        return Reply("", usage, LLMTruncated)
    if said.get("is_error") or ended.detail != "0":
        raise CallFailed(f"failed: {reason(result or str(turns))}", usage=usage)
    answer = said.get("structured_output")
    text = result if answer is None else json.dumps(answer, ensure_ascii=False)
    return Reply(text, usage, _TROUBLE.get(str(said.get("stop_reason"))))


def _usage(counted: Any) -> Usage | None:
    if not isinstance(counted, dict):
        return None
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    asked = sum(int(counted.get(name) or 0) for name in names)
    answered = int(counted.get("output_tokens") or 0)
    return Usage(1, asked, answered) if asked or answered else None


CLIENT: Final = Client(
    name="claude-code",
    title="Claude Code",
    program="claude",
    model="haiku",
    variables=(
        *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLOUD_ML_REGION"),
        *(f"CLAUDE_CODE_USE_{cloud}" for cloud in _CLOUDS),
        *(f"CLAUDE_CODE_SKIP_{cloud}_AUTH" for cloud in _CLOUDS),
    ),
    prefixes=("ANTHROPIC_", "AWS_", "GOOGLE_", "VERTEX_REGION_"),
    mentions="@",
    login="Run `claude` in a terminal and type /login.",
    call=_call,
    reply=_reply,
)
