"""Idempotency keys: a client that got no answer repeats its request with the same key, and the work is done once.

Most operations are one transaction, and the answer is stored in it. Those in `NOT_ONE_TRANSACTION` are not; there the
key is claimed first. Reads ignore the key. A refused request leaves its key free.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .calls import Call

HEADER = b"idempotency-key"
#: In an answer that is not new.
REPLAYED = (b"idempotency-replayed", b"true")

#: Operations that think, embed or wait between their writes. `lock.claim` is one of them if it waits.
NOT_ONE_TRANSACTION = frozenset({"dream.run", "dream.undo", "backlog.work", "doctor"})


class Request:
    """A request with a key."""

    def __init__(self, call: Call, key: str, name: str, values: Mapping[str, object]) -> None:
        grant = call.caller.grant()
        self._answers = call.eng.access.answers
        self._of = (
            grant.token_id or "owner",
            key,
            _digest(name, values),
            call.eng.workspace_name,
        )

    def once(self, perform: Callable[[], str]) -> tuple[str, bool]:
        """Do the work in one transaction with its stored answer: the answer, and whether it is an earlier one."""
        return self._answers.once(*self._of, perform)

    def claimed(self, perform: Callable[[], str]) -> tuple[str, bool]:
        """The same for work that is several transactions."""
        claim = self.claim()
        if isinstance(claim, str):
            return claim, True
        with self.released(claim):
            answer = perform()
        self._answers.finish(claim, answer)
        return answer, False

    def claim(self) -> Any:
        """Claim the key: what `finish` and `abandon` take. Text is the answer of an earlier request."""
        return self._answers.begin(*self._of)

    @contextmanager
    def released(self, claim: Any) -> Iterator[None]:
        """Free the key if the block raises."""
        try:
            yield
        except BaseException:
            self.abandon(claim)
            raise

    def finish(self, claim: Any, answer: str) -> None:
        self._answers.finish(claim, answer)

    def abandon(self, claim: Any) -> None:
        self._answers.abandon(claim)


def of(call: Call, name: str, values: Mapping[str, object]) -> Request | None:
    """The request with its key; None if it has none."""
    key = call.caller.headers.get(HEADER)
    return None if key is None else Request(call, key.decode("latin-1"), name, values)


def _digest(name: str, values: Mapping[str, object]) -> str:
    """Stands for what was asked. The order of the arguments does not matter."""
    asked = json.dumps([name, values], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(asked.encode()).hexdigest()
