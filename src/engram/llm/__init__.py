"""Providers, which do the thinking of a pass: one protocol, one module per provider.

`load` gives the provider that the user chose. Neither importing this package nor loading a provider imports an SDK;
the first call does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from .. import checks
from ..errors import InvalidInput
from .protocol import GIST_SO_FAR, Answer, Meter, Passage, Prompt, Provider, Usage, check, clip, quoted, render

__all__ = [
    "GIST_SO_FAR",
    "Answer",
    "Meter",
    "Passage",
    "Prompt",
    "Provider",
    "Usage",
    "check",
    "clip",
    "load",
    "quoted",
    "render",
]

DEFAULT = "extractive"
DEFAULT_TIMEOUT = 120.0
#: Providers that ask a server, and those that run a client of the user.
SERVERS = ("openai", "anthropic")
CLIENTS = ("claude-code", "codex", "gemini")
OFFERED = ("extractive", *(f"{name}{model}" for name in (*SERVERS, *CLIENTS) for model in ("", ":<model>")), "agent")


def load(
    choice: str = DEFAULT,
    *,
    base_url: str = "",
    programs: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    meter: Meter | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Provider | None:
    """The provider of that name; None for "agent", because agents then take that work from the store.

    `meter` is called before and after every call to a server or a client; the extractive provider makes no calls.
    `programs` has the fixed program of each client.
    """
    provider, _, model = choice.partition(":")
    if choice == "agent":
        return None
    if choice == "extractive":
        from .extractive.thinker import Extractive

        return Extractive()
    if provider not in (*SERVERS, *CLIENTS):
        raise InvalidInput(f"There is no provider {choice!r}. The providers are: {', '.join(OFFERED)}.")
    if ":" in choice:
        model = checks.name(model, f"the model of the {provider} provider")
    from .model_calls import Model, Served

    served: Model
    if provider in CLIENTS:
        from .clients import ClientModel, client

        program = (programs or {}).get(provider, "")
        served = ClientModel(client(provider), model or client(provider).model, program, timeout=timeout)
    elif provider == "openai":
        from . import openai

        served = openai.OpenAIModel(model or openai.DEFAULT_MODEL, base_url=base_url, timeout=timeout)
    else:
        from . import anthropic

        served = anthropic.AnthropicModel(model or anthropic.DEFAULT_MODEL, base_url=base_url, timeout=timeout)
    return Served(served, meter=meter, sleep=sleep)
