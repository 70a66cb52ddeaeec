"""Who can think during passes, and choosing one: what it is, what it costs, where its program is, and a trial.

The choice is stored in the user's `config.toml`, so it holds for every process of the user. The path of a client's
program is stored with it: later passes run that file, whatever PATH says by then.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from .. import config as configuration
from .. import user_file
from ..errors import InvalidInput, LLMUnavailable, MissingExtra
from ..llm import CLIENTS, OFFERED, Passage, Prompt, load
from ..llm.clients import client, programs
from ..setup_records import ThinkerChoice, ThinkerInfo
from .usage import Meter

if TYPE_CHECKING:
    from ..store_view import StoreView

#: What a trial is counted as.
TRIAL: Final = "trial"
#: The longest time for a trial, in seconds.
_TRIAL_LIMIT: Final = 60.0
_READY: Final = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}
_PROMPT: Final = Prompt(
    "trial",
    "This is a test of the connection. Answer with the JSON object that says you are ready.",
    (Passage("e1", "user", "Are you ready?", "user"),),
)
_SYSTEM: Final = "You answer in the requested form and say nothing else."

_SUBSCRIPTION: Final = (
    "Uses the allowance of your {plan}; with an API key each token is billed. What was said in your sessions goes to "
    "{company}, as it does when you use {title} itself. A session takes about one question."
)
_TOKENS: Final = "Each token costs money. What was said in your sessions goes to that server. It needs a key in {key}."
#: Variables of which one holds the key of a server.
_KEYS: Final = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
}
#: What each thinker is, and what it costs.
_DESCRIBED: Final = {
    "extractive": (
        "no model: sentences selected from what was said",
        "Costs nothing, and nothing leaves this machine.",
    ),
    "agent": (
        "the agents that are connected over MCP: passes leave them prompts",
        "No key and no extra bill. Your agents spend some of their own tokens on it.",
    ),
    "claude-code": (
        "Claude Code on this machine, in its non-interactive mode, without tools",
        _SUBSCRIPTION.format(plan="Claude plan", company="Anthropic", title="Claude Code"),
    ),
    "codex": (
        "Codex on this machine, in its non-interactive mode, without tools",
        _SUBSCRIPTION.format(plan="ChatGPT plan", company="OpenAI", title="Codex"),
    ),
    "gemini": (
        "Gemini CLI on this machine, in its non-interactive mode, without tools",
        _SUBSCRIPTION.format(plan="Google account", company="Google", title="Gemini CLI"),
    ),
    "openai": (
        "a model on a server with OpenAI's protocol: OpenAI, or your own with llm_base_url",
        _TOKENS.format(key="OPENAI_API_KEY") + " A server of your own may cost nothing and need none.",
    ),
    "anthropic": ("Claude on Anthropic's server", _TOKENS.format(key="ANTHROPIC_API_KEY")),
}


class Thinkers:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._config = view.config

    @property
    def given(self) -> str | None:
        """The name of the Python object that thinks for this Engram; None if the setting decides."""
        return None if self._view.llm is None else self._view.llm.name

    def list(self) -> list[ThinkerInfo]:
        """Every thinker, and whether it could be used here. The one that the settings name is among them."""
        current = self._config.llm
        provider = current.partition(":")[0]
        names = [current if name == provider else name for name in _DESCRIBED]
        if provider not in _DESCRIBED:
            names.append(current)
        return [self._info(name, name == current) for name in names]

    def plan(self, name: str, program: str | None = None) -> ThinkerInfo:
        """What `use` would choose. InvalidInput for an unknown name, LLMUnavailable for one that cannot be used."""
        found = self._info(_known(name), name == self._config.llm, program, anew=True)
        if found.problem:
            raise LLMUnavailable(found.problem)
        return found

    def use(self, name: str, program: str | None = None, *, trial: bool = True) -> ThinkerChoice:
        """Try a thinker once, and store the choice in the user's file. A thinker that fails changes nothing."""
        found = self.plan(name, program)
        provider = name.partition(":")[0]
        spent = self._try(found) if trial and provider not in ("extractive", "agent") else None
        values = {"llm": name}
        if provider in CLIENTS:
            values[configuration.program_setting(provider)] = found.program
        file = user_file.store(values)
        return ThinkerChoice(name, found.program, file, *(spent or (None, None, None)))

    def overruled(self, name: str) -> str | None:
        """What names another thinker than the user's file, and wins; None if nothing does."""
        settings = configuration.load()
        if settings.llm == name:
            return None
        return f"ENGRAM_LLM is {settings.llm} here, and goes before the user's file."

    def _info(self, name: str, used: bool, program: str | None = None, *, anew: bool = False) -> ThinkerInfo:
        provider = name.partition(":")[0]
        what, costs = _DESCRIBED.get(provider, ("unknown", ""))
        if provider in CLIENTS:
            found = client(provider)
            fixed = "" if anew else self._config.program_of(provider)
            path = program or fixed or programs.find(found.program) or ""
            problem = programs.problem(path) if path else _not_installed(found.title, found.program)
            model = name.partition(":")[2] or found.model
            return ThinkerInfo(name, f"{what}, with the model {model}", costs, path, problem or "", used)
        if program is not None:
            raise InvalidInput(f"{name} has no program. Only {', '.join(CLIENTS)} have one.")
        return ThinkerInfo(name, what, costs, "", self._problem(name), used)

    def _problem(self, name: str) -> str:
        try:
            load(name, base_url=self._config.llm_base_url)
        except (MissingExtra, InvalidInput) as error:
            return str(error)
        keys = _KEYS.get(name.partition(":")[0], ())
        if not keys or self._config.llm_base_url or any(os.environ.get(key) for key in keys):
            return ""
        return f"There is no key in {keys[0]}."

    def _try(self, found: ThinkerInfo) -> tuple[int, int, int]:
        meter = Meter(self._view)
        meter.stage = TRIAL
        provider = found.name.partition(":")[0]
        thinker = load(
            found.name,
            base_url=self._config.llm_base_url,
            programs={provider: found.program},
            timeout=min(self._config.llm_timeout, _TRIAL_LIMIT),
            meter=meter,
            sleep=self._view.engine.clock.sleep,
        )
        assert thinker is not None
        usage = thinker.complete(_PROMPT, system=_SYSTEM, max_tokens=500, schema=_READY).usage
        return usage.calls, usage.input_tokens, usage.output_tokens


def _known(name: str) -> str:
    provider, colon, model = name.partition(":")
    if provider not in _DESCRIBED or (colon and (provider in ("extractive", "agent") or not model.strip())):
        raise InvalidInput(f"There is no thinker {name!r}. Choose one of: {', '.join(OFFERED)}.")
    return name


def _not_installed(title: str, program: str) -> str:
    return (
        f"{title} is not installed: PATH has no program {program} that only you and the administrator can change. "
        "Install it, or give its path with --program."
    )
