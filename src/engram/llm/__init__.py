"""Who thinks while dreaming: one protocol, one module per provider.

`load` gives a provider by the user's choice. Importing this package imports no SDK, and neither does loading a
provider: that happens when it is first asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .. import checks
from ..errors import InvalidInput
from .protocol import Answer, Meter, Passage, Prompt, Provider, Usage, check, quoted, render

__all__ = ["Answer", "Meter", "Passage", "Prompt", "Provider", "Usage", "check", "load", "quoted", "render"]

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
    """The provider of that name; None for "agent", whose work is offered in the store and not done in this process.

    `meter` is asked before every call to a server and told after it; the extractive provider makes none.
    """
    provider, _, model = choice.partition(":")
    if choice == "agent":
        return None
    if choice == "extractive":
        from .extractive.thinker import Extractive

        return Extractive()
    if provider not in ("openai", "anthropic"):
        raise InvalidInput(
            f"There is no provider {choice!r}. Known are: extractive, openai, openai:<model>, anthropic, "
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
