"""What the agents of the made-up month claim, and when Engram dreams."""

from __future__ import annotations

from typing import NamedTuple


class Claimed(NamedTuple):
    at: str
    session: str
    resource: str
    note: str
    exclusive: bool = False


class Dreamt(NamedTuple):
    at: str
    #: `by hand`, or the reason of an automatic pass.
    reason: str
    #: When a person undoes it.
    undone: str | None = None


#: Claims of the sessions that are at work. The first two overlap.
LEASES = (
    Claimed("now 80", "tax-service", "acme/shop:src/checkout/**", "tax lines"),
    Claimed("now 46", "checkout-e2e", "acme/shop:src/checkout/steps/payment.tsx", "test ids for the end-to-end tests"),
    Claimed("now 45", "checkout-e2e", "acme/shop:e2e/**", "new tests"),
    Claimed("now 38", "prod-migration", "acme/billing:migrations/**", "0036 runs at 20:00", exclusive=True),
    Claimed("now 120", "docs-pricing", "acme/docs:handbook/pricing-2027.md", "draft"),
)

DREAMS = (
    Dreamt("28 20:30", "session end"),
    Dreamt("26 20:30", "idle server"),
    Dreamt("23 20:30", "session end"),
    Dreamt("20 20:30", "idle server"),
    Dreamt("18 20:30", "by hand", undone="18 20:40"),
    Dreamt("15 20:30", "session end"),
    Dreamt("12 20:30", "session end"),
    Dreamt("9 20:30", "idle server"),
    Dreamt("6 20:30", "session end"),
    Dreamt("3 20:30", "idle server"),
    Dreamt("1 18:45", "by hand"),
    Dreamt("now 200", "idle server"),
)
