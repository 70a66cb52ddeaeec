"""Several exchanges are forgotten at once, with one receipt."""

from __future__ import annotations

import pytest

from engram import Engram, ExchangeNotFound, InvalidInput
from tests._tables import holds


def test_several_exchanges_go_together_with_one_receipt(eng: Engram, store_url: str) -> None:
    for session in ("one", "two"):
        eng.sessions.ensure(session)
    ids = [eng.exchanges.add(session, "user", f"The kestrel of {session}.") for session in ("one", "two", "one")]
    kept = eng.exchanges.add("one", "user", "The heron stays.")
    derived = eng.remember("A kestrel was seen.", sources=[("exchange", id) for id in ids])
    other = eng.remember("A heron was seen.", sources=[("exchange", kept)])
    preview = eng.forget(exchanges=ids, dry_run=True)
    assert (preview.id, preview.counts["exchanges"]) == (None, 3)
    receipt = eng.forget(exchanges=[*ids, ids[0]])
    assert receipt.asked == "3 exchanges"
    assert receipt.ids["exchanges"] == sorted(ids)
    assert receipt.ids["memories"] == [derived.id]
    assert [turn.id for turn in eng.exchanges.history("one")] == [kept]
    assert eng.memories.get(other.id).status == "active"
    assert holds(store_url, "kestrel") == {}
    assert len(eng.receipts()) == 1


def test_nothing_is_forgotten_if_one_of_them_does_not_exist(eng: Engram) -> None:
    eng.sessions.ensure("one")
    id = eng.exchanges.add("one", "user", "The heron stays.")
    with pytest.raises(ExchangeNotFound, match="exchange 999"):
        eng.forget(exchanges=[id, 999])
    with pytest.raises(InvalidInput, match="exchanges is empty"):
        eng.forget(exchanges=[])
    with pytest.raises(InvalidInput, match="exchange id"):
        eng.forget(exchanges=[0])
    with pytest.raises(InvalidInput, match="exactly one"):
        eng.forget(exchanges=[id], exchange=id)
    assert len(eng.exchanges.history("one")) == 1
    assert eng.receipts() == []
