"""A hundred random requests of each kind to every operation of the HTTP server: no 5xx, every answer as declared."""

from __future__ import annotations

import pytest

from engram import Engram
from tests._running import serving
from tests.interfaces._fuzzing import fuzz, operations, things
from tests.stress._processes import LONG
from tests.test_operations import Scene


@pytest.mark.requirement("SERVER-8")
@pytest.mark.skipif(not LONG, reason="make stress runs it; make test has a short form")
def test_a_hundred_random_requests_to_every_operation_are_answered_as_declared(eng: Engram) -> None:
    with serving(eng) as server:
        known = things(Scene(eng))
        counts = {operation.label: len(fuzz(server, operation, 100, known)) for operation in operations()}
    print(counts)
    assert sum(counts.values()) > 5_000
