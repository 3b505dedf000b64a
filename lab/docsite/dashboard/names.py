"""Names of the metrics that the dashboard shows: the one place to change when a metric gets another name.

tests/unit/delivery/test_monitoring.py compares them with the metrics that brokers and operator serve.
"""

from __future__ import annotations

from typing import Final

# Brokers: metrics.py, bookie_metrics.py, store_metrics.py and process_metrics.py in engine/readonly_engine/http/
MESSAGES: Final = "pulsar_readonly_dispatched_messages_total"
BYTES: Final = "pulsar_readonly_dispatched_bytes_total"
ACKS: Final = "pulsar_readonly_relayed_acks_total"
READ_FAILURES: Final = "pulsar_readonly_read_failures_total"
CONSUMERS: Final = "pulsar_readonly_consumers"
BACKLOG: Final = "pulsar_readonly_backlog_entries"
BACKLOG_AGE: Final = "pulsar_readonly_backlog_age_seconds"
LATENCY: Final = "pulsar_readonly_end_to_end_latency_seconds_bucket"
CLOCK_SKEW: Final = "pulsar_readonly_end_to_end_latency_clock_skew_total"
PASSED_THROUGH: Final = "pulsar_readonly_passed_through_subscriptions"
CONNECTIONS: Final = "pulsar_readonly_connections"
TAIL_TOPICS: Final = "pulsar_readonly_tail_topics"
TAIL_CHANGES: Final = "pulsar_readonly_tail_source_changes_total"
LOCAL_SUBSCRIPTIONS: Final = "pulsar_readonly_local_subscriptions"
LOCAL_PARTITIONS: Final = "pulsar_readonly_local_cursor_partitions"
LOCAL_COMMITS: Final = "pulsar_readonly_local_cursor_commit_duration_seconds_bucket"
MEMBERS: Final = "pulsar_readonly_pool_members"
BINDINGS_INVALID: Final = "pulsar_readonly_bindings_invalid"
CLAIMS: Final = "pulsar_readonly_claimed_subscriptions"
SUSPENDED: Final = "pulsar_readonly_dispatch_suspended"
RELAYED_CONSUMERS: Final = "pulsar_readonly_relayed_consumers"
RELAYED_PRODUCERS: Final = "pulsar_readonly_relayed_producers"
SLOW_CLIENTS: Final = "pulsar_readonly_slow_clients"
BUFFERED: Final = "pulsar_readonly_buffered_bytes"
REDIRECTED: Final = "pulsar_readonly_redirected_consumers_total"
LOOKUPS: Final = "pulsar_readonly_lookups_total"
LIMIT_REFUSALS: Final = "pulsar_readonly_limit_refusals_total"
AUTHENTICATION_REFUSALS: Final = "pulsar_readonly_authentication_refusals_total"
UNACKED: Final = "pulsar_readonly_unacked_messages"
BOOKIE_REQUESTS: Final = "pulsar_readonly_bookie_requests_total"
BOOKIE_BYTES: Final = "pulsar_readonly_bookie_received_bytes_total"
BOOKIE_FAILURES: Final = "pulsar_readonly_bookie_failures_total"
BOOKIE_BUSY: Final = "pulsar_readonly_bookie_busy_total"
BOOKIE_SECONDS: Final = "pulsar_readonly_bookie_read_duration_seconds_sum"
BOOKIE_ANSWERS: Final = "pulsar_readonly_bookie_read_duration_seconds_count"
CACHE_BYTES: Final = "pulsar_readonly_cache_bytes"
CACHE_HITS: Final = "pulsar_readonly_cache_hits_total"
CACHE_MISSES: Final = "pulsar_readonly_cache_misses_total"
STORE_CONNECTED: Final = "pulsar_readonly_metadata_store_connected"
STORE_DENIALS: Final = "pulsar_readonly_metadata_store_denials_total"
BUILD: Final = "pulsar_readonly_build_info"

# Processes: prometheus_client's ProcessCollector (engine/readonly_engine/http/process_metrics.py)
CPU: Final = "process_cpu_seconds_total"
RESIDENT: Final = "process_resident_memory_bytes"
OPEN_FILES: Final = "process_open_fds"
MAX_FILES: Final = "process_max_fds"

# Pods: cAdvisor in the kubelet
SENT: Final = "container_network_transmit_bytes_total"
RECEIVED: Final = "container_network_receive_bytes_total"
PERIODS: Final = "container_cpu_cfs_periods_total"
THROTTLED: Final = "container_cpu_cfs_throttled_periods_total"

# Prometheus itself
ALERTS: Final = "ALERTS"
ALERT_PREFIX: Final = "PulsarReadonly"
"""Begin of the names in monitoring/rules.yaml."""

# The operator (operator/readonly_operator/metrics.py)
RECONCILES: Final = "pulsar_readonly_operator_reconcile_duration_seconds"
RECONCILE_ERRORS: Final = "pulsar_readonly_operator_reconcile_errors_total"
QUEUE_DEPTH: Final = "pulsar_readonly_operator_workqueue_depth"
QUEUE_ADDS: Final = "pulsar_readonly_operator_workqueue_adds_total"
QUEUE_WAIT: Final = "pulsar_readonly_operator_workqueue_wait_seconds_bucket"
LONGEST_RECONCILE: Final = "pulsar_readonly_operator_workqueue_longest_running_seconds"
LEADER: Final = "pulsar_readonly_operator_leader"
APPLIED: Final = "pulsar_readonly_operator_applied_objects_total"
EVENTS: Final = "pulsar_readonly_operator_events_total"
CONDITIONS: Final = "pulsar_readonly_operator_object_conditions"
UNWELL: Final = "pulsar_readonly_operator_pool_unwell"
READABLE: Final = "pulsar_readonly_operator_namespace_readable"
BROKERS_DESIRED: Final = "pulsar_readonly_operator_brokers_desired"
BROKERS_READY: Final = "pulsar_readonly_operator_brokers_ready"
OPERATOR_BUILD: Final = "pulsar_readonly_operator_build_info"
