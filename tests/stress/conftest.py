from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stress._processes import Crew


@pytest.fixture
def crew(store_url: str) -> Iterator[Crew]:
    """Starts worker processes; none of them outlives the test, nor the store it works on."""
    crew = Crew()
    yield crew
    crew.end()
