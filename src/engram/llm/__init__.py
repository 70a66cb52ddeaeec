"""Providers, which do the thinking of a pass: one protocol, one module per provider.

`load` gives the provider that the user chose. Neither importing this package nor loading a provider imports an SDK;
the first call does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .. import checks
from ..errors import InvalidInput
from .protocol import Answer, Meter, Passage, Prompt, Provider, Usage, check, clip, quoted, render

__all__ = ["Answer", "Meter", "Passage", "Prompt", "Provider", "Usage", "check", "clip", "load", "quoted", "render"]

DEFAULT = "extractive"
DEFAULT_TIMEOUT = 120.0


def load(
    choice: str = DEFAULT,
    *,
    base_url: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    meter: Meter | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Provider | None:
    """The provider of that name; None for "agent", because agents then take that work from the store.

    `meter` is called before and after every call to a server; the extractive provider makes no calls.
    """
    provider, _, model = choice.partition(":")
    if choice == "agent":
        return None
    if choice == "extractive":
        from .extractive.thinker import Extractive

        return Extractive()
    if provider not in ("openai", "anthropic"):
        raise InvalidInput(
            f"There is no provider {choice!r}. The providers are: extractive, openai, openai:<model>, anthropic, "
            "anthropic:<model>, agent."
        )
    if ":" in choice:
        model = checks.name(model, f"the model of the {provider} provider")
    from .model_calls import Model, Served

    served: Model
    if provider == "openai":
        from . import openai

        served = openai.OpenAIModel(model or openai.DEFAULT_MODEL, base_url=base_url, timeout=timeout)
    else:
        from . import anthropic

        served = anthropic.AnthropicModel(model or anthropic.DEFAULT_MODEL, base_url=base_url, timeout=timeout)
    return Served(served, meter=meter, sleep=sleep)
