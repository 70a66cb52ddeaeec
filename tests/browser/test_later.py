"""What takes long is loaded after the page is shown."""

from __future__ import annotations

import pytest

from .conftest import Visit


@pytest.mark.requirement("DASHBOARD-60")
def test_the_sizes_appear_on_the_page_system_by_themselves(log_in: Visit) -> None:
    visitor = log_in(scope="admin")
    visitor.server.eng.remember("Deploys never happen on Fridays")
    page = visitor.visit("system")
    page.wait_for_selector("#sizes table")
    assert "on the disk" in page.inner_text("#sizes")
    assert page.get_attribute("#sizes", "data-load") is None
