"""Any endpoint that speaks OpenAI's chat completions, through their SDK: OpenAI, Ollama, LM Studio, vLLM, llama.cpp.

The key is the SDK's own OPENAI_API_KEY; the address comes from `llm_base_url`, else from OPENAI_BASE_URL. Servers
differ in what they support, so what one refuses is left out of later requests. Structured output is asked for by a
schema, then as any JSON object, then only in words; the limit is `max_completion_tokens` or `max_tokens`.
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
    from openai import OpenAI

DEFAULT_MODEL: Final = "gpt-4.1-mini"
_KEY_VARIABLE: Final = "OPENAI_API_KEY"
_CONNECT_TIMEOUT: Final = 5.0
#: Keywords that OpenAI's strict mode does not support. It also requires every object to be exact.
_NOT_STRICT: Final = frozenset({"maxLength"})
_FORMS: Final = ("json_schema", "json_object", "words")
#: OpenAI's newer models require the first, and some other servers know only the second.
_LIMITS: Final = ("max_completion_tokens", "max_tokens")
_ABOUT_FORMS: Final = re.compile(r"response_format|json|schema|grammar|structured", re.IGNORECASE)
_ABOUT_LIMITS: Final = re.compile("|".join(_LIMITS))
_TROUBLE: Final = {"length": LLMTruncated, "content_filter": LLMRefused}
#: Codes of errors that a content policy caused.
_POLICY: Final = {"content_filter", "content_policy_violation"}
#: The code of a status 429 that will not go away by waiting.
_QUOTA: Final = "insufficient_quota"


class OpenAIModel:
    def __init__(self, model: str, *, base_url: str = "", timeout: float = 120.0) -> None:
        need("openai", ("openai",), install_command("openai"), what="provider")
        self.name = f"openai:{model}"
        self._model = model
        self._base_url = base_url
        self._timeout = timeout
        self._client = Lazy(self._connect)
        #: The ways of asking that the server is not known to refuse, the preferred one first.
        self._forms: tuple[str, ...] = _FORMS
        self._limits: tuple[str, ...] = _LIMITS[::-1] if self._address() else _LIMITS

    def where(self) -> str:
        address = urlsplit(str(self._client().base_url))
        return f"The model {self._model!r} at {address.scheme}://{address.netloc.rpartition('@')[2]}"

    def ask(self, request: Request) -> Reply:
        import openai

        client = self._client()
        try:
            answer: Any = client.chat.completions.create(**self._arguments(request))
        except openai.APIStatusError as error:
            self._ask_otherwise(error, request.schema is not None)
            raise self._call_failed(error, client.api_key) from None
        except openai.APITimeoutError:
            raise CallFailed("did not answer in time.", again=True) from None
        except openai.APIConnectionError:
            raise CallFailed("cannot be reached.", again=True) from None
        except openai.OpenAIError as error:
            raise CallFailed(f"failed: {reason(str(error), client.api_key)}") from None
        except ValueError:
            raise not_a_completion() from None
        return _reply(answer)

    def _address(self) -> str:
        """Where the server is; empty for OpenAI itself."""
        return self._base_url or os.environ.get("OPENAI_BASE_URL", "")

    def _connect(self) -> OpenAI:
        import openai

        address = self._address()
        key = os.environ.get(_KEY_VARIABLE)
        if not key and not address:
            raise LLMUnavailable(
                f"The openai provider needs a key in {_KEY_VARIABLE}, or the address of a server that takes none in "
                "ENGRAM_LLM_BASE_URL."
            )
        try:
            return openai.OpenAI(
                # The SDK requires a key. A server that needs none ignores it.
                api_key=key or "none",
                base_url=address or None,
                max_retries=0,
                timeout=openai.Timeout(self._timeout, connect=_CONNECT_TIMEOUT),
                # Stored text goes only to the server that the user named, so redirects are not followed.
                http_client=openai.DefaultHttpxClient(follow_redirects=False),
            )
        except (openai.OpenAIError, ValueError, TypeError):
            raise LLMUnavailable("The address of the openai provider is invalid; see ENGRAM_LLM_BASE_URL.") from None

    def _arguments(self, request: Request) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        turns = [{"role": turn.role, "content": turn.text} for turn in request.turns]
        return {
            "model": self._model,
            "messages": system + turns,
            self._limits[0]: request.max_tokens,
            **self._format(request.schema),
        }

    def _format(self, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        if schema is None or self._forms[0] == "words":
            return {}
        if self._forms[0] == "json_object":
            return {"response_format": {"type": "json_object"}}
        form = {"name": "answer", "schema": without_keywords(schema, _NOT_STRICT), "strict": is_exact(schema)}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def _ask_otherwise(self, error: Any, with_form: bool) -> None:
        """AskOtherwise if the server refused a part of the request that can be left out."""
        if error.status_code not in (400, 422, 501):
            return
        said = str(error)
        # Read once: another thread may remove the same way of asking now, and the last one must stay.
        limits, forms = self._limits, self._forms
        if len(limits) > 1 and _ABOUT_LIMITS.search(said):
            self._limits = limits[1:]
        elif with_form and len(forms) > 1 and _ABOUT_FORMS.search(said):
            self._forms = forms[1:]
        else:
            return
        raise AskOtherwise from None

    def _call_failed(self, error: Any, key: str) -> CallFailed:
        status: int = error.status_code
        if status in (401, 403):
            return CallFailed(f"refused the key (status {status}); see {_KEY_VARIABLE}.")
        said = f"failed: {reason(str(error), key)}"
        if error.code in _POLICY:
            return CallFailed(said, kind=LLMRefused)
        again = is_transient(status) and error.code != _QUOTA
        return CallFailed(said, again=again, wait=retry_after(error.response.headers))


def _reply(answer: Any) -> Reply:
    try:
        (choice, *_) = answer.choices
        text = choice.message.content or ""
        refused = getattr(choice.message, "refusal", None)
        trouble = LLMRefused if refused else _TROUBLE.get(choice.finish_reason)
        if not isinstance(text, str):
            raise TypeError
    except (AttributeError, TypeError, ValueError):
        raise not_a_completion() from None
    return Reply(text, _usage(getattr(answer, "usage", None)), trouble)


def _usage(counted: Any) -> Usage | None:
    asked, answered = getattr(counted, "prompt_tokens", None), getattr(counted, "completion_tokens", None)
    return Usage(1, asked, answered) if isinstance(asked, int) and isinstance(answered, int) else None
