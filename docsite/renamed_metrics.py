"""Former names of metrics and their present ones, for the table in docs/reference/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from docsite.markdown import code, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.metrics_core import Metric

_NAMES: Final = {
    "acks_relayed_total": "relayed_acks_total",
    "bindings_refused": "bindings_invalid",
    "bytes_dispatched_per_second": "dispatched_bytes_per_second",
    "bytes_dispatched_total": "dispatched_bytes_total",
    "claims": "claimed_subscriptions",
    "consumers_to_peers": "relayed_consumers",
    "local_cursor_commit_seconds": "local_cursor_commit_duration_seconds",
    "members": "pool_members",
    "messages_dispatched_total": "dispatched_messages_total",
    "metadata_connected": "metadata_store_connected",
    "metadata_denied_total": "metadata_store_denials_total",
    "moved_total": "redirected_consumers_total",
    "passed_through": "passed_through_subscriptions",
    "producers": "relayed_producers",
    "refused_total": "limit_refusals_total",
    "resting": "dispatch_suspended",
    "tail_changes_total": "tail_source_changes_total",
    "operator_applied_total": "operator_applied_objects_total",
    "operator_brokers_wanted": "operator_brokers_desired",
    "operator_objects": "operator_object_conditions",
    "operator_queue_length": "operator_workqueue_depth",
    "operator_reconcile_failures_total": "operator_reconcile_errors_total",
    "operator_reconcile_seconds": "operator_reconcile_duration_seconds",
}

RENAMED: Final[Mapping[str, str]] = {
    f"pulsar_readonly_{before}": f"pulsar_readonly_{after}" for before, after in _NAMES.items()
}
"""Present names by former ones."""

TEXT: Final = """## Renamed metrics
Before the first release these metrics had other names. Change them in your dashboards, alerts and autoscaling rules. Metrics of topics
have the labels `cluster` and `namespace` too.
"""


def sample_names(families: Iterable[Metric]) -> set[str]:
    """Return the names of families as queries have them: counters end in `_total`."""
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in families}


def section() -> str:
    """Return the section of the page, Markdown."""
    rows = [[code(before), code(after)] for before, after in sorted(RENAMED.items())]
    return f"{TEXT}\n{table(['former name', 'name'], rows)}"
