"""What models cost, and the caps on it. Both are counted in the store, so caps hold across processes and days.

A call is counted before it is made. So two processes can never both make the last allowed call, and a call counts even
if its process dies. Automatic passes have daily caps of their own. Their calls are counted under `auto/STAGE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..clock import later
from ..errors import CapReached
from ..records import Spent

if TYPE_CHECKING:
    from ..config import Config
    from ..llm import Usage
    from ..store_view import StoreView

_ADD = """
INSERT INTO usage (workspace, day, stage, calls, input_tokens, output_tokens)
VALUES (:workspace, :day, :stage, :calls, :input, :output)
ON CONFLICT (workspace, day, stage) DO UPDATE SET calls = usage.calls + :calls,
  input_tokens = usage.input_tokens + :input, output_tokens = usage.output_tokens + :output
"""
_OF_DAY = """
SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(input_tokens + output_tokens), 0) FROM usage
WHERE workspace = :workspace AND day = :day
"""
# The stages of automatic passes have this prefix. `0` follows `/`.
_AUTOMATIC_OF_DAY = """
SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(input_tokens + output_tokens), 0) FROM usage
WHERE workspace = :workspace AND day = :day AND stage >= 'auto/' AND stage < 'auto0'
"""
_SINCE = """
SELECT day, stage, calls, input_tokens, output_tokens FROM usage
WHERE workspace = :workspace AND day >= :since ORDER BY day DESC, stage
"""


class Caps(NamedTuple):
    """The most calls and tokens that may be spent. 0 means none at all."""

    pass_calls: int
    pass_tokens: int
    day_calls: int
    day_tokens: int
    #: Of automatic passes.
    auto_calls: int
    auto_tokens: int

    @classmethod
    def of(cls, config: Config) -> Caps:
        return cls(
            config.dream_pass_calls,
            config.dream_pass_tokens,
            config.dream_day_calls,
            config.dream_day_tokens,
            config.auto_dream_day_calls,
            config.auto_dream_day_tokens,
        )


class Meter:
    """Counts the calls of one pass and refuses a call that would exceed a cap."""

    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._caps = Caps.of(view.config)
        self.calls = 0
        self.input_tokens = 0
        self.output_tokens = 0
        #: The stage that the next calls are counted for.
        self.stage = ""
        #: Whether the pass started by itself.
        self.automatic = False

    def before(self, expected: Usage) -> None:
        """Count one call. CapReached when a cap leaves no room for it or for the tokens it may take."""
        tokens = expected.input_tokens + expected.output_tokens
        caps = self._caps
        spent = self.input_tokens + self.output_tokens
        _require_within(self.calls + 1, caps.pass_calls, "calls", "pass")
        _require_within(spent + tokens, caps.pass_tokens, "tokens", "pass")
        with self._engine.write() as tx:
            # One writer at a time, so that checking the cap and counting the call are one step.
            tx.lock(f"usage/{self._workspace}")
            day = tx.now()[:10]
            ((calls, used),) = tx.all(_OF_DAY, workspace=self._workspace, day=day)
            _require_within(int(calls) + 1, caps.day_calls, "calls", "day")
            _require_within(int(used) + tokens, caps.day_tokens, "tokens", "day")
            if self.automatic:
                ((calls, used),) = tx.all(_AUTOMATIC_OF_DAY, workspace=self._workspace, day=day)
                _require_within(int(calls) + 1, caps.auto_calls, "calls", "day", "auto_dream")
                _require_within(int(used) + tokens, caps.auto_tokens, "tokens", "day", "auto_dream")
            tx.run(_ADD, workspace=self._workspace, day=day, stage=self._counted_as, calls=1, input=0, output=0)
        self.calls += 1

    def left(self) -> tuple[int, int]:
        """How many more calls and tokens the caps allow now."""
        caps = self._caps
        with self._engine.read() as tx:
            of_day = {"workspace": self._workspace, "day": tx.now()[:10]}
            ((calls, used),) = tx.all(_OF_DAY, **of_day)
            room = [
                (caps.pass_calls - self.calls, caps.pass_tokens - self.input_tokens - self.output_tokens),
                (caps.day_calls - int(calls), caps.day_tokens - int(used)),
            ]
            if self.automatic:
                ((calls, used),) = tx.all(_AUTOMATIC_OF_DAY, **of_day)
                room.append((caps.auto_calls - int(calls), caps.auto_tokens - int(used)))
        return max(0, min(calls for calls, _ in room)), max(0, min(tokens for _, tokens in room))

    @property
    def _counted_as(self) -> str:
        return f"auto/{self.stage}" if self.automatic else self.stage

    def after(self, spent: Usage) -> None:
        """Add the tokens that a call took."""
        self.input_tokens += spent.input_tokens
        self.output_tokens += spent.output_tokens
        if not (spent.input_tokens or spent.output_tokens):
            return
        with self._engine.write() as tx:
            tx.lock(f"usage/{self._workspace}")
            tx.run(
                _ADD,
                workspace=self._workspace,
                day=tx.now()[:10],
                stage=self._counted_as,
                calls=0,
                input=spent.input_tokens,
                output=spent.output_tokens,
            )


def spent(view: StoreView, days: int = 30) -> list[Spent]:
    """What the last days cost, by day and stage, the latest day first."""
    checks.whole(days, "days", least=1, most=36_500)
    with view.engine.read() as tx:
        since = later(tx.now(), -(days - 1) * 86_400.0)[:10]
        return [Spent(*row) for row in tx.all(_SINCE, workspace=view.workspace, since=since)]


def _require_within(wanted: int, cap: int, what: str, span: str, prefix: str = "dream") -> None:
    if wanted > cap:
        setting = f"{prefix}_{span}_{what}"
        raise CapReached(
            f"The cap of {cap} {what} a {span} leaves no room for another call; the setting is "
            f"{setting} (ENGRAM_{setting.upper()})."
        )
