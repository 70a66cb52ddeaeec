"""What forgetting takes, no undo brings back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from engram import Engram
from engram.dreaming.pass_context import PassContext
from engram.dreaming.undo import journal
from tests._passes import dream, dream_of, talk
from tests._tables import holds
from tests.conftest import ShiftedClock


@pytest.mark.requirement("UNDO-5")
def test_forgotten_text_does_not_come_back(eng: Engram, store_url: str) -> None:
    session = talk(eng)
    dream(eng)
    eng.exchanges.add(session, "user", "I prefer the codeword Xylophone for every release.")
    (secret,) = [turn for turn in eng.exchanges.recent(session, 10) if "Xylophone" in turn.content]
    dream(eng)
    eng.exchanges.add(session, "user", "We decided to rename the importer as well.")
    dream(eng)
    assert "journal" in holds(store_url, "Xylophone")
    eng.forget(exchange=secret.id)
    assert holds(store_url, "Xylophone") == {}
    undone = eng.dreams.undo()
    assert undone.left
    assert holds(store_url, "Xylophone") == {}


@pytest.mark.requirement("UNDO-5")
def test_what_an_undo_had_removed_is_forgotten_with_what_it_was_made_of(eng: Engram, store_url: str) -> None:
    session = talk(eng, "I prefer the codeword Xylophone for every release.", "We decided to meet on Mondays.")
    (secret, _) = eng.exchanges.recent(session, 10)
    dream(eng)
    undone = eng.dreams.undo()
    assert "journal" in holds(store_url, "Xylophone")
    eng.forget(exchange=secret.id)
    assert holds(store_url, "Xylophone") == {}
    redone = eng.dreams.undo(undone.id)
    assert redone.left
    # What the other turn says by itself was not made of the forgotten one.
    assert [eng.memories.get(int(each.split()[1])).content for each in redone.restored] == [
        "We decided to meet on Mondays."
    ]
    assert holds(store_url, "Xylophone") == {}


@pytest.mark.requirement("UNDO-5")
@pytest.mark.parametrize("undone_first", [False, True])
@pytest.mark.parametrize("by", ["session", "before", "source"])
def test_every_way_of_forgetting_takes_the_images_too(
    eng: Engram, store_url: str, clock: ShiftedClock, by: str, undone_first: bool
) -> None:
    session = talk(eng, "I prefer the codeword Xylophone for every release.", "We decided to meet on Mondays.")
    dream(eng)
    eng.exchanges.add(session, "user", "I prefer the codeword Xylophone, still.")
    dream(eng)
    if undone_first:
        eng.dreams.undo()
    clock.advance(60)
    eng.sessions.complete(session)
    clock.advance(60)
    value = {"session": session, "source": "claude-code", "before": eng._view.engine.clock.now()}[by]
    eng.forget(**{by: value})  # type: ignore[arg-type]
    assert holds(store_url, "Xylophone") == {}
    eng.dreams.undo()
    assert holds(store_url, "Xylophone") == {}


@pytest.mark.requirement("UNDO-5")
def test_forgetting_one_memory_leaves_the_others_to_be_undone(eng: Engram) -> None:
    kept = eng.remember("The office is in Bern")
    gone = eng.remember("The canteen is in Thun")
    eng.memories.link(kept.id, gone.id, "near")

    def merge(context: PassContext) -> None:
        for memory in (kept, gone):
            context.memories.update(memory.id, memory.content + ".", sources=())
            context.memories.archive(memory.id)

    dream_of(eng, merge)
    eng.forget(memory=gone.id)
    undone = eng.dreams.undo()
    assert undone.left == [f"memory {gone.id}"] and undone.restored == [f"memory {kept.id}"]
    found = eng.memories.get(kept.id)
    assert (found.content, found.status) == ("The office is in Bern", "active")
    assert eng.memories.links(kept.id) == []


@pytest.mark.requirement("UNDO-5")
def test_images_of_a_block_that_was_deleted_since_are_erased_too(
    eng: Engram, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the latest image is left then, which by itself does not say where the oldest line is from.
    monkeypatch.setattr(journal, "KEPT_DREAMS", 1)
    session = talk(eng, "The codeword is Xylophone.", "The office is in Bern.", "The canteen is in Thun.")
    secret, *others = eng.exchanges.recent(session, 10)
    text = ""
    for turn in (secret, *others):
        text += f"- {turn.content} [e{turn.id}]\n"
        dream_of(eng, partial(_derive, text, turn.id))
    eng.blocks.delete("facts")
    assert holds(store_url, "Xylophone")["journal"] == 1
    eng.forget(exchange=secret.id)
    assert holds(store_url, "Xylophone") == {}


def _derive(text: str, turn: int, context: PassContext) -> None:
    context.blocks.derive("facts", text, "", "dream", 1_000, {("exchange", turn)})


@pytest.mark.requirement("FORGET-20")
def test_forgetting_by_time_reaches_the_image_of_a_block_that_was_deleted(open_store: Callable[..., Engram]) -> None:
    eng = open_store(dream_min_age=0, dream_consolidate="apply")
    eng.blocks.create("big", "the zanzibarqux plan. " + "filler words here. " * 60, max_tokens=50)
    eng.dream(force=True)
    eng.blocks.delete("big")
    with eng._view.engine.read() as tx:
        kept = tx.all("SELECT before FROM journal WHERE kind = 'block' AND before IS NOT NULL")
    assert any("zanzibarqux" in row[0] for row in kept)
    eng.forget(before="2030-01-01")
    with eng._view.engine.read() as tx:
        kept = tx.all("SELECT before FROM journal WHERE before IS NOT NULL")
    assert not any("zanzibarqux" in row[0] for row in kept)
