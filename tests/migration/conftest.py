from __future__ import annotations

import pytest


@pytest.fixture
def sqlite_url(new_sqlite_url: str) -> str:
    """A store that is not there yet: what makes and migrates stores is what these tests are about."""
    return new_sqlite_url


@pytest.fixture
def postgres_url(new_postgres_url: str) -> str:
    """The same on PostgreSQL."""
    return new_postgres_url
