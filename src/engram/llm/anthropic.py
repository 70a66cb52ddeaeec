"""Anthropic's messages, through their SDK.

The key is the SDK's own ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN); the address comes from `llm_base_url`, else from
ANTHROPIC_BASE_URL. The SDK's other ways to find credentials are not used: they make calls that the meter does not see.
Structured output is asked for by schema; a model that does not support it is asked in words alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from .._version import install_command
from ..embedding.lazy import Lazy
from ..embedding.packages import need
from ..errors import LLMRefused, LLMTruncated, LLMUnavailable
from .model_calls import AskOtherwise, CallFailed, Reply, Request, is_transient, not_a_completion, reason, retry_after
from .protocol import Usage
from .schemas import is_exact, without_keywords

if TYPE_CHECKING:
    from anthropic import Anthropic

DEFAULT_MODEL: Final = "claude-haiku-4-5"
_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
_TOKEN_VARIABLE: Final = "ANTHROPIC_AUTH_TOKEN"
_CONNECT_TIMEOUT: Final = 5.0
#: Keywords that structured output does not support. It also requires every object to be exact.
_UNKNOWN: Final = frozenset({"maxLength", "minItems", "maxItems", "minimum", "maximum"})
_ABOUT_FORMS: Final = re.compile(r"output_config|output_format|json|schema|structured|grammar", re.IGNORECASE)
_TROUBLE: Final = {
    "max_tokens": LLMTruncated,
    "model_context_window_exceeded": LLMTruncated,
    "refusal": LLMRefused,
}


class AnthropicModel:
    def __init__(self, model: str, *, base_url: str = "", timeout: float = 120.0) -> None:
        need("anthropic", ("anthropic",), install_command("anthropic"), what="provider")
        self.name = f"anthropic:{model}"
        self._model = model
        self._base_url = base_url
        self._timeout = timeout
        self._client = Lazy(self._connect)
        self._knows_forms = True

    def where(self) -> str:
        address = urlsplit(str(self._client().base_url))
        return f"The model {self._model!r} at {address.scheme}://{address.netloc.rpartition('@')[2]}"

    def ask(self, request: Request) -> Reply:
        import anthropic

        client = self._client()
        turns: Any = [{"role": turn.role, "content": turn.text} for turn in request.turns]
        with_form = self._knows_forms and request.schema is not None and is_exact(request.schema)
        try:
            answer: Any = client.messages.create(
                model=self._model,
                messages=turns,
                max_tokens=request.max_tokens,
                system=request.system or anthropic.omit,
                output_config=_format(request.schema) if with_form and request.schema else anthropic.omit,
            )
        except anthropic.APIStatusError as error:
            if with_form and error.status_code in (400, 422) and _ABOUT_FORMS.search(str(error)):
                self._knows_forms = False
                raise AskOtherwise from None
            raise _call_failed(error, client) from None
        except anthropic.APITimeoutError:
            raise CallFailed("did not answer in time.", again=True) from None
        except anthropic.APIConnectionError:
            raise CallFailed("cannot be reached.", again=True) from None
        except anthropic.AnthropicError as error:
            raise CallFailed(f"failed: {reason(str(error), client.api_key, client.auth_token)}") from None
        except ValueError:
            raise not_a_completion() from None
        return _reply(answer)

    def _connect(self) -> Anthropic:
        import anthropic

        key, token = os.environ.get(_KEY_VARIABLE), os.environ.get(_TOKEN_VARIABLE)
        if not key and not token:
            raise LLMUnavailable(f"The anthropic provider needs a key in {_KEY_VARIABLE}.")
        try:
            return anthropic.Anthropic(
                api_key=key or None,
                auth_token=None if key else token,
                base_url=self._base_url or None,
                max_retries=0,
                timeout=anthropic.Timeout(self._timeout, connect=_CONNECT_TIMEOUT),
                # Stored text must not appear in traces.
                open_telemetry=False,
                # Stored text goes only to the server that the user named, so redirects are not followed.
                http_client=anthropic.DefaultHttpxClient(follow_redirects=False),
            )
        except (anthropic.AnthropicError, ValueError, TypeError):
            raise LLMUnavailable("The address of the anthropic provider is invalid; see ENGRAM_LLM_BASE_URL.") from None


def _format(schema: Mapping[str, Any]) -> Any:
    return {"format": {"type": "json_schema", "schema": without_keywords(schema, _UNKNOWN)}}


def _call_failed(error: Any, client: Anthropic) -> CallFailed:
    status: int = error.status_code
    if status in (401, 403):
        return CallFailed(f"refused the key (status {status}); see {_KEY_VARIABLE}.")
    said = f"failed: {reason(str(error), client.api_key, client.auth_token)}"
    return CallFailed(said, again=is_transient(status), wait=retry_after(error.response.headers))


def _reply(answer: Any) -> Reply:
    try:
        # A model's thoughts are in separate blocks.
        text = "".join(block.text for block in answer.content if block.type == "text")
        trouble = _TROUBLE.get(answer.stop_reason)
    except (AttributeError, TypeError):
        raise not_a_completion() from None
    return Reply(text, _usage(getattr(answer, "usage", None)), trouble)


def _usage(counted: Any) -> Usage | None:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    asked = [getattr(counted, name, None) or 0 for name in names]
    answered = getattr(counted, "output_tokens", None)
    return Usage(1, sum(asked), answered) if isinstance(answered, int) else None
