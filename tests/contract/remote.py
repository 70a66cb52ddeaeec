"""Which tests of the contract suite also run over HTTP, and why the others do not."""

from __future__ import annotations

import pytest

#: The modules whose tests run through a server, too: all groups of the facade that a client uses.
MODULES = frozenset(
    {
        *("test_agent_queue", "test_approvals", "test_block_data", "test_block_names", "test_blocks", "test_brief"),
        *("test_changes", "test_context", "test_counts", "test_dreaming", "test_eras", "test_exchanges"),
        *("test_forget_exchanges", "test_gists", "test_harness_processes", "test_json_columns", "test_keyed_memories"),
        *("test_lease_queue", "test_leases", "test_memories", "test_messages", "test_past_times", "test_proposals"),
        *("test_recall", "test_session_lookup", "test_sessions", "test_sitrep", "test_transcripts", "test_usage"),
        *("test_word_search", "test_world"),
    }
)
EXCEPTIONS: dict[str, frozenset[str]] = {}


def runs_remotely(item: pytest.Item) -> bool:
    name = getattr(item, "originalname", item.name)
    is_exception = any(name in tests for tests in EXCEPTIONS.values())
    return item.path.stem in MODULES and "open_store" in getattr(item, "fixturenames", ()) and not is_exception
