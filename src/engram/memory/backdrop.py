"""Texts about everything and nothing: how close a question is to these is how close it is to anything.

Meaning is counted in standard deviations above the mean of the store. A store with one memory has neither, so the
model's own take their place: those of the question's cosines with these texts. They fade as the store grows.

The texts are of the kinds that stores contain: work on software, and daily life, short and long. They are embedded once
for each model; the user's cache keeps the vectors.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from ..embedding import Embedder
    from ..embedding.protocol import Vectors

_SAID: Final = """
The choir rehearses in the old school every second Wednesday.
The borrow checker rejected the closure, so the buffer is cloned first.
I prefer my coffee without sugar.
The glacier lost a third of its length within fifty years.
Merged: the calendar widget shows week numbers.
My sister plays the viola in an orchestra.
Invoices are sent as PDF on the first day of the month.
The parser keeps a stack of open brackets.
Tomatoes need more light than the balcony gets.
We moved the nightly job to half past three.
He thanked everybody for the surprise party.
Logs are rotated when they reach ten megabytes.
Please answer in short sentences and leave out the headings.
The customer wants the export to keep its column order.
All tests pass; the linter complains about one unused import.
She started a new job at the library in spring.
The cache key did not contain the user's language, so pages were mixed up.
Her flight lands at nine in the evening.
We decided to keep the old endpoint until the end of the year.
The children built a tree house with their grandfather.
Reading the config twice was the cause of the slow start.
Use tabs in this project, never spaces.
He ran his first marathon in under four hours.
The image is built from a slim base and runs as a user without rights.
Our dog is afraid of thunder.
The index on created_at is used only when the limit is small.
They are looking for a flat with a garden near the river.
Retry three times, then give up and write the message to the dead letter queue.
I learnt to bake bread during the winter.
The button is grey until the form is valid.
The meeting with the lawyers was moved to Thursday afternoon.
A race between two workers closed the socket too early.
The band played two songs of their new album.
Passwords are hashed before they leave the machine.
Grandma's soup has more pepper than the recipe says.
The release notes are generated from the commit messages.
My back hurts after a day at the desk.
The schema has a table for orders and one for payments.
The novel is about a lighthouse keeper and his daughter.
Rename the function; its name says the opposite of what it does.
We painted the kitchen yellow last summer.
The request timed out because the name server did not answer.
He collects stamps from countries that no longer exist.
Feature flags are read at start and never again.
The doctor said that two weeks of rest are enough.
Only the maintainers may push to the main branch.
The train was late, so we missed the beginning of the play.
Floating point sums differ between the two engines.
She speaks Portuguese with her neighbours.
The dashboard shows requests per second and the slowest page.
Their wedding is in a small church on the island.
Deleting a project keeps its files for thirty days.
I would rather walk than take the bus.
The mobile app crashes when the camera is not allowed.
The painting shows a harbour at dawn.
Documentation lives beside the code and is checked by a test.
We spent the holidays in the mountains with friends.
The scheduler skips a run when the previous one is still going.
He asked for a rise and got more holidays instead.
Version two of the protocol adds a length before every message.
The cat sleeps on the keyboard.
Memory usage stays flat after the leak was fixed.
They planted apple trees along the fence.
The budget for the next quarter has not been approved.
""".strip().splitlines()

#: A model that finds all of these equally far has no spread to divide by.
_LEAST_SPREAD: Final = 0.02


def usual(embedder: Embedder, query: Vectors) -> tuple[float, float]:
    """Mean and standard deviation of the query's cosines with texts that have nothing to do with it."""
    cosines = _vectors(embedder) @ query
    return float(cosines.mean()), max(float(cosines.std()), _LEAST_SPREAD)


_kept: dict[str, Vectors] = {}


def _vectors(embedder: Embedder) -> Vectors:
    name = embedder.name
    if name not in _kept:
        from ..embedding import cache
        from ..embedding.quantise import from_int8, to_int8

        said = sha256("\n".join([name, *_SAID]).encode()).hexdigest()[:32]
        stored = cache.kept(f"backdrop-{said}", lambda: to_int8(embedder.embed(_SAID)).tobytes())
        _kept[name] = from_int8(np.frombuffer(stored, np.int8).reshape(len(_SAID), -1))
    return _kept[name]
