"""Tests that `make test` leaves out, so that it ends soon. `make test-all` has them, as has `make test-integration`.

Most subjects keep a test in `make test`. What is here repeats one under other conditions, or waits long for servers.
A file without names is here as a whole. A name without brackets stands for the test with all its parameters.
"""

from __future__ import annotations

from typing import Final

_LOST_ACK = "test_an_ack_that_comes_before_its_owner_counts_the_entry_is_not_lost"
_ANSWERED_ACK = "test_acks_that_a_killed_owner_had_answered_are_sent_again"
_FROZEN = "test_a_frozen_client_loses_its_exclusive_subscription"
_SILENT_OWNER = "test_a_silent_owner_suspends_delivery_and_one_that_is_back_costs_nothing"
_SILENT_STORE = "test_a_broker_for_which_zookeeper_is_silent_delivers_nothing_once_another_may_have_its_claim"
_LEAVES = "test_a_broker_that_leaves_loses_and_doubles_nothing"

NIGHTLY: Final[dict[str, tuple[str, ...]]] = {
    "tests/e2e/test_autoscaling.py": ("test_the_pool_follows_its_connections",),
    "tests/e2e/test_binding.py": ("test_a_binding_to_a_pool_that_is_not_there_waits_for_it",),
    "tests/e2e/test_explicit_lac.py": (
        "test_a_deletion_does_not_wait_for_a_writer_that_is_gone",
        "test_a_pool_can_be_a_cluster_in_the_writers_metadata",
        "test_it_is_tried_on_a_topic",
    ),
    "tests/e2e/test_install.py": (
        "test_by_the_chart_of_a_release_without_values",
        "test_by_the_kustomize_bundle_of_a_release",
        "test_by_the_one_yaml_of_a_release",
        "test_definitions_are_upgraded_before_helm_upgrades_the_rest",
    ),
    "tests/e2e/test_kubectl_plugin.py": (
        "test_a_signal_leaves_nothing_behind",
        "test_a_user_with_few_rights_sees_what_they_allow",
        "test_doctor_has_the_exit_status_of_the_checks",
        "test_the_blocks_of_the_guide",
        "test_top_has_all_brokers",
    ),
    "tests/e2e/test_local_cursors.py": (),
    "tests/e2e/test_node_ports.py": (
        "test_a_binding_that_brokers_serve_stays_ready_while_its_pool_is_refused",
        "test_brokers_that_end_do_not_keep_the_others_from_their_ports",
    ),
    "tests/e2e/test_operation.py": ("test_another_process_takes_over",),
    "tests/e2e/test_pool.py": ("test_a_broker_that_gives_up_is_quoted",),
    "tests/e2e/test_probes.py": ("test_a_rollout_pauses_after_each_broker",),
    "tests/e2e/test_second_day.py": (
        "test_a_binding_that_does_not_fit_is_refused_alone",
        "test_held_brokers_stay_and_any_user_runs_them",
    ),
    "tests/e2e/test_shell_blocks.py": ("test_the_canary_of_the_guide",),
    "tests/e2e/test_tenancy.py": (
        "test_a_binding_of_another_namespace_decides_no_cursors_of_the_pools_own",
        "test_a_restart_of_the_operator_releases_no_binding_of_a_selected_namespace",
    ),
    "tests/e2e/test_workers.py": (
        "test_a_worker_that_hangs_is_named_and_replaced_in_its_pod",
        "test_workers_come_and_go_by_a_rollout",
    ),
    "tests/integration/test_auth.py": ("test_a_client_that_does_not_renew_is_closed",),
    "tests/integration/test_batch_acks_survive.py": (),
    "tests/integration/test_batch_indexes.py": (),
    "tests/integration/test_bookkeeper.py": (
        "test_a_bookie_that_dies_at_a_batch_read_is_not_taken_for_an_old_one",
        "test_a_bookie_that_is_down",
    ),
    "tests/integration/test_bounds.py": ("test_closings_of_one_client_that_no_owner_answers_are_bounded",),
    "tests/integration/test_compacted.py": (
        "test_a_compacted_read_sees_what_it_sees_at_the_owner[unbatched]",
        "test_a_slow_compacted_read_goes_on_in_the_next_compaction",
        "test_a_slow_compacted_read_loses_nothing_when_its_owner_moves[subscription]",
    ),
    "tests/integration/test_demo.py": (
        "test_an_end_at_any_moment_leaves_no_process[killed]",
        "test_an_end_at_any_moment_leaves_no_process[runs]",
    ),
    "tests/integration/test_devstack_distribution.py": (),
    "tests/integration/test_devstack_pulsar.py": (
        "test_a_killed_broker_comes_back",
        "test_a_stopped_brokers_topics_move",
    ),
    "tests/integration/test_doctor.py": (
        "test_a_bookie_that_is_stopped",
        "test_a_login_without_a_right_on_the_root",
        "test_explicit_lac_is_off",
        "test_missing_rights_are_named",
        "test_the_least_rights_are_enough_and_nothing_is_written",
        "test_wrong_ports",
    ),
    "tests/integration/test_doctor_broken.py": (),
    "tests/integration/test_fleet.py": (
        "test_a_broker_that_joins_takes_topics_over",
        "test_an_unreachable_zookeeper_is_named",
        "test_reads_go_on_while_the_owner_is_dead_and_acks_land_afterwards",
    ),
    "tests/integration/test_handover.py": (
        "test_a_failover_consumer_that_takes_over_gets_nothing_that_is_about_to_be_acked",
        "test_an_owner_that_does_not_answer_is_waited_for_some_seconds",
    ),
    "tests/integration/test_hostile_clients.py": (
        f"{_FROZEN}[owner]",
        f"{_FROZEN}[pool and owner]",
        f"{_FROZEN}[two brokers of the pool]",
    ),
    "tests/integration/test_http_port.py": ("test_10_000_connections_take_256_descriptors_and_no_probe",),
    "tests/integration/test_kept_back.py": (
        "test_messages_wait_for_the_end_of_a_transaction_that_they_do_not_tell_of",
        "test_readers_that_are_served_together_wait_for_such_a_transaction_and_go_on_together",
    ),
    "tests/integration/test_leases.py": (
        f"{_SILENT_STORE}[Key_Shared]",
        "test_a_broker_that_was_stopped_for_a_while_does_not_begin_with_delivering",
        "test_what_was_acked_at_another_broker_meanwhile_does_not_come_again",
    ),
    "tests/integration/test_local_cursors.py": ("test_subscriptions_go_with_their_topic",),
    "tests/integration/test_local_guards.py": ("test_what_the_owner_expires_is_expired_here",),
    "tests/integration/test_local_takeover.py": (
        "test_a_broker_that_comes_gets_its_share",
        "test_another_broker_takes_over[frozen]",
        "test_another_broker_takes_over[stopped]",
        "test_partitions_that_an_administrator_adds_change_nothing",
    ),
    "tests/integration/test_localities.py": (),
    "tests/integration/test_lookup.py": ("test_a_pattern_hears_of_new_topics_at_once_also_after_the_connection_broke",),
    "tests/integration/test_lost_acks.py": (
        f"{_LOST_ACK}[False-Exclusive-Cumulative]",
        f"{_LOST_ACK}[False-Shared-Individual]",
        f"{_LOST_ACK}[True-Exclusive-Cumulative]",
    ),
    "tests/integration/test_metadata_leader.py": (),
    "tests/integration/test_migration.py": (),
    "tests/integration/test_oauth2.py": (
        "test_a_pool_outlives_a_silence_of_the_server_that_is_longer_than_its_tokens",
        "test_a_pool_reads_with_tokens_that_expire[local]",
    ),
    "tests/integration/test_owner_dies.py": (
        "test_a_reset_at_the_new_owner_is_not_taken_for_a_loss",
        f"{_ANSWERED_ACK}[cumulative]",
        f"{_ANSWERED_ACK}[individual]",
    ),
    "tests/integration/test_owner_leases.py": (
        "test_a_dead_owner_whose_topic_is_loaded_elsewhere_is_no_reason_to_go_on",
        "test_a_dead_owner_whose_topic_nobody_has_loaded_costs_no_reads",
        f"{_SILENT_OWNER}[Failover]",
        f"{_SILENT_OWNER}[Shared]",
        "test_an_exclusive_consumer_gets_nothing_once_the_owner_may_have_let_in_another",
    ),
    "tests/integration/test_owner_moves.py": (
        "test_a_reader_goes_on_where_it_stands_wherever_it_began",
        "test_a_reset_that_coincides_with_an_unload_is_not_undone",
    ),
    "tests/integration/test_oxia.py": (
        "test_a_lost_leader_costs_no_claim",
        "test_all_servers_gone_and_back",
        "test_claims_end_with_a_dead_broker",
    ),
    "tests/integration/test_pass_through.py": ("test_two_pools_on_one_subscription_leave_it_to_the_owner",),
    "tests/integration/test_plan.py": (),
    "tests/integration/test_policies_followed.py": (
        "test_a_dispatch_rate_ends_the_pushes_while_it_lasts[broker]",
        "test_a_dispatch_rate_ends_the_pushes_while_it_lasts[subscription]",
        "test_a_dispatch_rate_ends_the_pushes_while_it_lasts[topic]",
        "test_a_limit_of_unacked_messages[kind0-topic-names0-local]",
        "test_a_limit_of_unacked_messages[kind1-namespace-names1-owner]",
        "test_a_limit_of_unacked_messages[kind2-namespace-names2-local]",
        "test_a_limit_of_unacked_messages[kind2-namespace-names2-owner]",
        "test_delayed_delivery[kind1-topic]",
    ),
    "tests/integration/test_producers.py": (
        f"{_LEAVES}[batches-plain]",
        f"{_LEAVES}[single-deduplication]",
        f"{_LEAVES}[single-plain]",
        "test_a_name_of_a_client_that_is_gone_without_a_word_is_free_as_soon_as_at_the_owner",
    ),
    "tests/integration/test_pushed_rates.py": (),
    "tests/integration/test_pushed_tail.py": (
        "test_many_messages_are_read_from_bookies_and_the_next_few_are_pushed_again",
    ),
    "tests/integration/test_release_differences.py": (
        "test_acks_of_single_messages_of_a_batch_count_by_default[4.2.4]",
        "test_key_shared_looks_ahead_as_far_as_the_release[4.2.4-owner]",
        "test_key_shared_looks_ahead_as_far_as_the_release[4.2.4-pool]",
        "test_lists_of_ledgers_are_compressed[4.2.4]",
        "test_policies_of_a_topic_count_wherever_they_are_stored[4.2.4]",
        "test_stored_acks_are_long_arrays[4.2.4]",
        "test_the_defaults_that_differ[4.2.4]",
    ),
    "tests/integration/test_releases.py": (
        "test_all_types_read_through_a_pool[4.2.4-local]",
        "test_all_types_read_through_a_pool[4.2.4-owner]",
        "test_all_types_read_through_a_pool_on_oxia",
        "test_the_topic_tool_reads_ledgers_from_the_bookies_own_store",
    ),
    "tests/integration/test_scalable_topics.py": (),
    "tests/integration/test_secure_stores.py": (
        "test_logins_at_bookies",
        "test_no_tls_to_a_port_with_it",
        "test_rights_are_withdrawn_from_a_running_broker",
        "test_tls_to_a_port_without_it",
    ),
    "tests/integration/test_shell_blocks.py": (
        "test_local_subscriptions",
        "test_plan_of_a_cluster",
        "test_the_commands_of_pulsar_in_the_guide",
        "test_the_commands_of_pulsars_tools_exist",
        "test_the_comparison_of_the_guide",
        "test_the_tutorial_of_spark",
    ),
    "tests/integration/test_spark.py": ("test_a_topic_may_end_with_a_message_that_the_stock_reader_discards",),
    "tests/integration/test_spark_capture.py": (),
    "tests/integration/test_spark_changes.py": (
        "test_a_stream_at_the_end_of_a_trimmed_ledger_loses_nothing",
        "test_offloaded_and_deleted_from_the_bookies",
    ),
    "tests/integration/test_spark_compacted.py": (),
    "tests/integration/test_spark_connect.py": (),
    "tests/integration/test_spark_export.py": ("test_iceberg_has_each_message_once_though_spark_repeats_a_batch",),
    "tests/integration/test_spark_export_state.py": (
        "test_a_checkpoint_or_a_table_from_a_backup_is_refused_and_adopted_from_what_the_table_holds",
        "test_a_table_of_a_catalog_that_another_export_wrote_elsewhere_is_refused",
        "test_a_table_of_an_earlier_version_goes_on_where_its_log_shows_whose_it_is",
        "test_a_table_that_was_moved_is_refused",
    ),
    "tests/integration/test_spark_export_tables.py": ("test_a_new_checkpoint_is_refused_and_adopts_on_request",),
    "tests/integration/test_spark_hold.py": ("test_messages_are_held_until_the_sink_has_them",),
    "tests/integration/test_spark_lag.py": (),
    "tests/integration/test_spark_outages.py": (),
    "tests/integration/test_spark_sql.py": (),
    "tests/integration/test_spark_streams.py": ("test_a_topic_that_is_deleted",),
    "tests/integration/test_spark_tls.py": (),
    "tests/integration/test_spark_transactions.py": (),
    "tests/integration/test_subscriptions.py": (
        "test_a_batch_that_is_acked_in_part_and_given_back",
        "test_a_batch_that_is_acked_in_part_comes_back_with_the_rest_of_it",
        "test_a_consumer_asks_for_all_that_it_has_not_acked",
        "test_a_consumer_with_too_much_unacked_waits_until_it_has_acked",
        "test_a_key_with_something_unacked_stays_where_it_is_when_a_consumer_arrives",
        "test_batches_of_one_key_each",
        "test_delayed_messages_outlive_the_broker",
        "test_key_shared_in_any_order",
        "test_key_shared_with_ranges_and_a_range_that_is_taken",
        "test_large_messages_in_chunks_reach_one_consumer_each",
        "test_messages_wait_for_their_time_where_the_owner_lets_them_wait",
    ),
    "tests/integration/test_subscriptions_rights.py": (),
    "tests/integration/test_subscriptions_tool.py": (
        "test_a_client_that_forces_itself_in_takes_nothing_from_others",
        "test_a_half_export_has_no_consumers_at_the_pool_until_it_is_run_again",
        "test_a_half_import_has_no_consumers_until_it_is_run_again",
        "test_a_mark_alone_is_no_obstacle",
        "test_a_pool_that_keeps_no_cursors",
        "test_a_subscription_with_consumers_is_moved_by_force_only",
        "test_after_a_crash_a_migration_is_run_again",
        "test_nothing_answers",
        "test_partitions",
    ),
    "tests/integration/test_tiered.py": (
        "test_offloaded_then_deleted_from_the_bookies_and_all_is_still_there",
        "test_where_one_copy_fails_the_other_is_read",
    ),
    "tests/integration/test_topic_log.py": (
        "test_a_polled_bookie_that_stalls_holds_the_tail_up_for_a_moment_only",
        "test_an_entry_at_the_tail_is_read_from_a_bookie_once",
        "test_reads_go_on_while_zookeeper_is_away_and_a_roll_is_seen_afterwards",
        "test_termination_ends_a_reader",
    ),
    "tests/integration/test_topic_tool.py": ("test_partitions_in_one_stream",),
    "tests/integration/test_transactions.py": (
        "test_a_message_that_is_stored_after_its_transaction_was_aborted_keeps_nothing_back",
        "test_a_subscription_that_starts_inside_of_an_open_transaction_waits_for_its_end",
        "test_a_transaction_that_spans_ledgers_and_runs_out_of_time",
        "test_pushed_messages_of_a_transaction_come_at_its_commit",
        "test_the_end_of_a_terminated_topic_is_told_when_all_is_acked",
        "test_what_a_committed_transaction_has_acked_never_comes_again",
        "test_what_a_transaction_publishes_through_the_pool_is_stored_once",
        "test_what_java_publishes_in_chunks_through_the_pool_is_stored_once",
    ),
    "tests/integration/test_waiting_producers.py": (
        "test_a_client_waits_30_s_for_an_owner_that_does_not_answer_producer",
        "test_a_producer_gets_exclusive_access_through_the_pool_after_those_before_it_have_left",
    ),
    "tests/integration/test_workers.py": (
        "test_a_store_that_cannot_be_reached_ends_all",
        "test_a_worker_that_hangs_is_named_and_replaced",
        "test_workers_share_the_cursors_of_their_pool",
    ),
}


def is_nightly(test: str) -> bool:
    """Return whether `make test` leaves a test out.

    Args:
        test: its node id, as pytest names it.
    """
    path, _, name = test.partition("::")
    names = NIGHTLY.get(path)
    return names is not None and (not names or name in names or name.partition("[")[0] in names)
