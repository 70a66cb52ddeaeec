"""Which tests of the contract suite also run over HTTP, and why the others do not.

The other modules are about what happens inside the server's process: dreaming's stages, undo, embedding, migrations of
an index, access. A client calls them in one way, which `tests/interfaces/test_remote.py` shows.
"""

from __future__ import annotations

import os

import pytest

#: The modules whose tests run through a server, too: all groups of the facade that a client uses.
MODULES = frozenset(
    {
        *("test_agent_queue", "test_approvals", "test_block_data", "test_block_names", "test_blocks", "test_brief"),
        *("test_brief_lines", "test_earlier"),
        *("test_changes", "test_context", "test_counts", "test_dreaming", "test_eras", "test_exchanges"),
        *("test_forget_exchanges", "test_gists", "test_harness_processes", "test_json_columns", "test_keyed_memories"),
        *("test_leases", "test_memories", "test_messages", "test_past_times", "test_proposals", "test_recall"),
        *("test_graph", "test_leases_break", "test_overview"),
        *("test_session_lookup", "test_sessions", "test_sitrep", "test_transcripts", "test_usage", "test_world"),
    }
)

#: Tests of these modules that do not, by the reason.
EXCEPTIONS: dict[str, frozenset[str]] = {
    "write() is NotRemote: a transaction of several calls belongs to one process.": frozenset(
        {
            "test_a_callers_transaction_is_seen_by_others_as_a_whole_or_not_at_all",
            "test_a_claim_that_races_with_completion_never_outlives_the_session",
            "test_a_completion_that_is_undone_gives_the_leases_back_with_the_session",
            "test_a_failed_call_inside_a_callers_transaction_undoes_only_itself",
            "test_a_failure_inside_a_callers_transaction_undoes_all_of_it",
            "test_a_fenced_transaction_passes_while_its_lease_is_held",
            "test_a_memory_in_a_transaction_that_fails_was_never_kept",
            "test_a_session_of_the_past_has_its_own_times",
            "test_a_tag_that_few_have_gives_the_same_hits_as_one_that_many_have",
            "test_a_token_of_another_workspace_or_of_nobody_fences_nothing_in",
            "test_a_token_that_becomes_stale_inside_the_transaction_lets_nothing_be_committed",
            "test_a_token_that_is_stale_already_lets_no_transaction_begin",
            "test_a_transaction_finds_what_it_has_just_written_by_words",
            "test_a_transaction_names_each_thing_once_in_the_order_it_was_first_changed",
            "test_a_turn_in_a_transaction_that_fails_was_never_said",
            "test_an_inbox_that_is_undone_delivers_again",
            "test_any_brief_keeps_any_budget_and_says_what_is_missing",
            "test_any_report_keeps_any_budget_and_says_what_is_missing",
            "test_no_process_is_looked_at_inside_a_transaction",
            "test_recall_inside_a_transaction_does_not_spoil_it",
            "test_the_lines_of_any_brief_are_its_text",
            "test_the_sweep_does_not_join_a_callers_transaction",
            "test_what_was_read_under_the_lock_still_holds_at_the_commit",
            "test_what_was_recalled_inside_a_transaction_that_failed_leaves_no_trace",
            "test_what_writes_nothing_enters_nothing",
        }
    ),
    "They look into the store past the facade, or call what only its own process can call.": frozenset(
        {
            "test_a_block_leads_to_what_it_was_made_from",
            "test_a_brief_of_a_full_store_takes_no_more_queries_than_of_a_small_one",
            "test_a_holder_is_told_of_a_session_s_edit_once_for_each_lease",
            "test_a_long_question_reaches_every_shelf_it_names",
            "test_a_noted_process_that_ended_under_a_session_at_work_says_nothing_about_it",
            "test_a_second_attempt_counts_as_insisting_from_five_seconds_to_ten_minutes_after_the_refusal",
            "test_an_answer_that_is_only_too_long_is_cut_and_taken",
            "test_an_earlier_brief_shows_how_things_stood_then",
            "test_an_old_snapshot_and_an_open_write_count_what_they_see",
            "test_common_words_are_counted_once_and_then_only_what_is_new",
            "test_delete_removes_the_block_with_every_version_it_ever_had",
            "test_dreams_never_take_a_turns_place",
            "test_every_filter_leaves_exactly_what_it_names",
            "test_every_table_belongs_to_a_part_and_parts_grow_with_what_is_written",
            "test_every_process_gives_the_same_hits_also_after_others_changed_things",
            "test_forgetting_a_session_forgets_its_process_and_what_it_was_told",
            "test_no_session_can_take_the_name_of_the_person_but_an_old_one_keeps_its_mailbox",
            "test_random_changes_by_two_processes_leave_every_count_exact",
            "test_the_cap_of_a_day_holds_to_the_call_among_many_at_once",
            "test_the_loop_goes_on_while_another_dreams_and_ends_when_told",
            "test_the_number_of_queries_does_not_depend_on_what_is_there",
            "test_the_release_before_reads_and_sends_messages_beside_this_one",
            "test_the_report_is_of_one_moment_whatever_others_write_meanwhile",
            "test_vectors_of_another_model_are_not_mixed_in_and_a_warning_says_so",
            "test_verify_finds_a_log_that_does_not_lead_to_the_content",
            "test_what_was_applied_by_hand_is_undone_by_its_run_and_must_be_decided_again",
            "test_what_was_forgotten_is_not_in_an_earlier_brief_either",
            "test_what_was_removed_edited_or_archived_by_any_process_is_not_counted",
            "test_work_items_of_stages_that_are_gone_leave_the_queue",
        }
    ),
    "They change code or a model of this process, which the server does not see.": frozenset(
        {
            "test_a_pass_that_lost_its_lease_writes_nothing_more_and_says_so",
            "test_a_rejected_proposal_is_neither_made_nor_done_again",
            "test_dreams_are_not_in_the_situation_report",
            "test_no_transaction_is_open_while_a_model_thinks",
            "test_recall_neither_waits_nor_fails_while_another_writes",
            "test_what_is_said_during_a_pass_is_news_to_the_next",
        }
    ),
    "They call back while the work goes on; a client gets only the result.": frozenset(
        {
            "test_a_batch_with_a_mistake_is_not_written_and_those_before_it_stay",
            "test_a_pass_that_is_stopped_ends_after_its_step_keeps_what_it_has_and_frees_the_lease",
            "test_many_turns_come_from_a_generator_with_progress_after_each_batch",
            "test_other_writers_get_in_between_batches",
        }
    ),
    "The client refuses it in other words, because it cannot be sent.": frozenset(
        {
            "test_all_messages_of_a_call_are_stored_or_none",
            "test_data_nested_too_deeply_are_refused_and_store_nothing",
        }
    ),
    "The server indexes words in the background, and no client can tell it to.": frozenset(
        {
            "test_what_is_learned_later_goes_before_the_last_turn_unless_that_is_indexed",
        }
    ),
    "They measure waiting by a clock that only moves when this process sleeps.": frozenset(
        {
            "test_waiting_ends_when_the_time_is_over",
        }
    ),
    "They open the store with two settings at once; the server has those of the last one.": frozenset(
        {
            "test_nothing_is_found_where_nothing_is",
        }
    ),
}


#: They are long, and the work is the server's. Only `make stress` runs them through a server, too.
LONG = frozenset(
    {
        "test_a_long_session_is_offered_one_piece_after_another",
        "test_a_long_session_is_summarised_piece_by_piece",
        "test_a_second_pass_writes_nothing_but_its_report_and_the_drives",
        "test_coherence_is_full_at_ten_gists_that_are_not_folded_in",
        "test_self_is_json_with_mood_energy_narrative_and_the_last_six_reflections",
        "test_the_cap_of_a_day_holds_over_passes_and_is_over_the_next_day",
        "test_the_cap_of_a_pass_holds_to_the_call_and_the_pass_ends_cleanly",
    }
)


def runs_remotely(item: pytest.Item) -> bool:
    name = getattr(item, "originalname", item.name)
    is_stress = bool(os.environ.get("ENGRAM_TEST_STRESS"))
    is_exception = any(name in tests for tests in EXCEPTIONS.values()) or (name in LONG and not is_stress)
    if item.path.parent.name != "contract" or is_exception:
        return False
    return item.path.stem in MODULES and "open_store" in getattr(item, "fixturenames", ())
