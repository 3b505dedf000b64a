"""Names of the metrics that the dashboard shows: the one place to change when a metric gets another name.

tests/unit/delivery/test_monitoring.py compares them with the metrics that brokers and operator serve.
"""

from __future__ import annotations

from typing import Final

# Brokers, by engine/readonly_engine/http/metrics.py and store_metrics.py
MESSAGES: Final = "pulsar_readonly_messages_dispatched_total"
BYTES: Final = "pulsar_readonly_bytes_dispatched_total"
ACKS: Final = "pulsar_readonly_acks_relayed_total"
READ_FAILURES: Final = "pulsar_readonly_read_failures_total"
CONSUMERS: Final = "pulsar_readonly_consumers"
BACKLOG: Final = "pulsar_readonly_backlog_entries"
PASSED_THROUGH: Final = "pulsar_readonly_passed_through"
CONNECTIONS: Final = "pulsar_readonly_connections"
TAIL_TOPICS: Final = "pulsar_readonly_tail_topics"
TAIL_CHANGES: Final = "pulsar_readonly_tail_changes_total"
LOCAL_SUBSCRIPTIONS: Final = "pulsar_readonly_local_subscriptions"
LOCAL_PARTITIONS: Final = "pulsar_readonly_local_cursor_partitions"
LOCAL_COMMITS: Final = "pulsar_readonly_local_cursor_commit_seconds_bucket"
MEMBERS: Final = "pulsar_readonly_members"
BINDINGS_REFUSED: Final = "pulsar_readonly_bindings_refused"
CLAIMS: Final = "pulsar_readonly_claims"
SUSPENDED: Final = "pulsar_readonly_resting"
TO_PEERS: Final = "pulsar_readonly_consumers_to_peers"
PRODUCERS: Final = "pulsar_readonly_producers"
SLOW_CLIENTS: Final = "pulsar_readonly_slow_clients"
BUFFERED: Final = "pulsar_readonly_buffered_bytes"
REDIRECTED: Final = "pulsar_readonly_moved_total"
LOOKUPS: Final = "pulsar_readonly_lookups_total"
REFUSED: Final = "pulsar_readonly_refused_total"
CACHE_BYTES: Final = "pulsar_readonly_cache_bytes"
CACHE_HITS: Final = "pulsar_readonly_cache_hits_total"
CACHE_MISSES: Final = "pulsar_readonly_cache_misses_total"
STORE_CONNECTED: Final = "pulsar_readonly_metadata_connected"
STORE_DENIED: Final = "pulsar_readonly_metadata_denied_total"

# Processes: prometheus_client's ProcessCollector
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
RECONCILES: Final = "pulsar_readonly_operator_reconcile_seconds"
RECONCILE_FAILURES: Final = "pulsar_readonly_operator_reconcile_failures_total"
QUEUE: Final = "pulsar_readonly_operator_queue_length"
LEADER: Final = "pulsar_readonly_operator_leader"
APPLIED: Final = "pulsar_readonly_operator_applied_total"
EVENTS: Final = "pulsar_readonly_operator_events_total"
OBJECTS: Final = "pulsar_readonly_operator_objects"
UNWELL: Final = "pulsar_readonly_operator_pool_unwell"
BROKERS_WANTED: Final = "pulsar_readonly_operator_brokers_wanted"
BROKERS_READY: Final = "pulsar_readonly_operator_brokers_ready"
