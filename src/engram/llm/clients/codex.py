"""Codex: `codex exec`.

`--ephemeral` writes no transcript, and the databases that Codex keeps anyway are written to the folder of the run.
`--ignore-user-config` leaves out hooks, MCP servers and all other settings, and keeps the login; the model provider is
passed on. Which tools a model is offered depends on Codex's list of models. So the client gets a list with one model
that has none. Only the user's own `AGENTS.md` in Codex's folder cannot be switched off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from ...errors import LLMMalformed
from ..model_calls import CallFailed, Reply, Request, reason
from ..protocol import Usage
from ..schemas import is_exact, without_keywords
from . import Call, Client, environment, no_answer, not_logged_in
from .running import Ended, Place, place, run

#: Keywords that strict structured output does not support.
_NOT_STRICT: Final = frozenset({"maxLength"})
_FIXED: Final = (
    *("exec", "--json", "--color", "never", "--ephemeral", "--ignore-user-config", "--ignore-rules"),
    *("--skip-git-repo-check", "--sandbox", "read-only"),
)
#: Parts of Codex that add tools, start processes or write files.
_FEATURES: Final = (
    *(
        "apps",
        "auth_elicitation",
        "browser_use",
        "code_mode_host",
        "computer_use",
        "daemon_auto_start",
        "goals",
        "hooks",
    ),
    *("image_generation", "in_app_browser", "memories", "multi_agent", "plugin_discovery_prefetch", "plugins"),
    *("remote_plugin", "shell_snapshot", "shell_tool", "skill_mcp_dependency_install", "skill_search", "sleep_tool"),
    *("tool_suggest", "unified_exec", "view_image", "workspace_dependencies"),
)
_SETTINGS: Final[dict[str, object]] = {
    "web_search": "disabled",
    "tools.experimental_request_user_input.enabled": False,
    "tools.update_plan.enabled": False,
    "include_environment_context": False,
    "include_permissions_instructions": False,
    "include_apps_instructions": False,
    "include_collaboration_mode_instructions": False,
    "project_doc_max_bytes": 0,
    "skills.bundled.enabled": False,
    "skills.include_instructions": False,
    "model_reasoning_effort": "low",
    "history.persistence": "none",
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
}
#: What is passed on of the user's settings: who serves the model, and how to log in. Headers may hold keys, and a
#: command line can be read by others, so they are left out.
_LOGIN_SETTINGS: Final = ("chatgpt_base_url", "cli_auth_credentials_store", "forced_login_method", "openai_base_url")
_PROVIDER_SETTINGS: Final = ("base_url", "env_key", "name", "requires_openai_auth", "wire_api")
#: What Codex knows about a model that says how to ask it. The rest adds tools and instructions.
_ASKED: Final = (
    *("supported_reasoning_levels", "support_verbosity", "default_verbosity", "truncation_policy", "context_window"),
    *("max_context_window", "effective_context_window_percent", "use_responses_lite", "input_modalities"),
)
#: Seconds for Codex to print its list of models.
_LIST_LIMIT: Final = 20.0

#: What Codex knows about each model, by its program's path.
_known: dict[str, dict[str, dict[str, Any]]] = {}


def _call(where: Place, program: str, model: str, request: Request) -> Call:
    given = _user_settings()
    provider = given.get("model_provider")
    settings = {**_SETTINGS, **{name: given[name] for name in _LOGIN_SETTINGS if isinstance(given.get(name), str)}}
    variables = {"CODEX_SQLITE_HOME": where.folder}
    described = _provider(given, provider)
    if described:
        settings |= {"model_provider": provider, "model_providers": {str(provider): described}}
        key = str(described.get("env_key", ""))
        if key in os.environ:
            variables[key] = os.environ[key]
    listed = {"models": [_without_tools(program, model, request.system or "Answer the question.")]}
    settings["model_catalog_json"] = where.file("models.json", json.dumps(listed))
    arguments = [*_FIXED, "--model", model]
    for feature in _FEATURES:
        arguments += ["--disable", feature]
    for name, value in settings.items():
        arguments += ["--config", f"{name}={_toml(value)}"]
    if request.schema is not None and is_exact(request.schema):
        schema = json.dumps(without_keywords(request.schema, _NOT_STRICT))
        arguments += ["--output-schema", where.file("schema.json", schema)]
    return Call([*arguments, "-"], variables)


def _reply(ended: Ended) -> Reply:
    text, usage, failure = "", None, ""
    for line in ended.output.splitlines():
        try:
            event: Any = json.loads(line)
            kind, item = event.get("type"), event.get("item") or {}
            if kind == "item.completed" and item.get("type") == "agent_message":
                text = str(item["text"])
            elif kind == "turn.completed":
                usage = _usage(event["usage"])
            elif kind in ("turn.failed", "error"):
                failure = str((event.get("error") or event).get("message") or "")
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            continue
    if usage is not None and ended.detail == "0":
        return Reply(text, usage)
    if any(sign in failure for sign in ("401", "Not logged in", "log in again", "refresh token")):
        raise not_logged_in(CLIENT)
    if failure:
        raise CallFailed(f"failed: {reason(failure)}")
    if ended.detail == "0":
        raise CallFailed("gave an answer that cannot be read.", kind=LLMMalformed)
    raise no_answer(ended)


def _usage(counted: Any) -> Usage:
    return Usage(1, int(counted["input_tokens"]), int(counted["output_tokens"]))


def _user_settings() -> dict[str, Any]:
    """Codex's own settings; empty when there are none, or they cannot be read."""
    import tomllib

    folder = os.environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError, RecursionError):
        return {}


def _provider(given: Mapping[str, Any], name: object) -> dict[str, object] | None:
    known = given.get("model_providers")
    found = known.get(name) if isinstance(known, dict) and isinstance(name, str) else None
    if not isinstance(found, dict):
        return None
    return {each: found[each] for each in _PROVIDER_SETTINGS if isinstance(found.get(each), str | bool)}


def _without_tools(program: str, model: str, system: str) -> dict[str, Any]:
    """The model for Codex's list, without tools. Of what Codex knows about it, only how it is asked is kept."""
    if program not in _known:
        _known[program] = _listed(program)
    known = _known[program].get(model, {})
    return {
        "slug": model,
        "display_name": model,
        "supported_reasoning_levels": [{"effort": "low", "description": "low"}],
        "default_reasoning_level": "low",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "support_verbosity": False,
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "context_window": 200_000,
        **{name: known[name] for name in _ASKED if name in known},
        "base_instructions": system,
        "shell_type": "disabled",
        "apply_patch_tool_type": None,
        "experimental_supported_tools": [],
        "supports_parallel_tool_calls": False,
        "supports_search_tool": False,
    }


def _listed(program: str) -> dict[str, dict[str, Any]]:
    """The models that Codex lists; empty when it does not list them."""
    with place() as where:
        variables = environment(CLIENT, os.environ, where, program) | {"CODEX_SQLITE_HOME": where.folder}
        ended = run(where, [program, "debug", "models", "--bundled"], variables, "", limit=_LIST_LIMIT)
    try:
        return {str(each["slug"]): each for each in json.loads(ended.output)["models"]}
    except (ValueError, KeyError, TypeError):
        return {}


def _toml(value: object) -> str:
    """A value in TOML. JSON's texts, numbers and truth values are the same there."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


CLIENT: Final = Client(
    name="codex",
    title="Codex",
    program="codex",
    model="gpt-6-luna",
    variables=("CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE"),
    prefixes=("OPENAI_",),
    mentions="@$",
    login="Run `codex login` in a terminal.",
    call=_call,
    reply=_reply,
)
