"""The report of the demo, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

DISPATCHED = "pulsar_readonly_dispatched_messages_total"


@dataclass(frozen=True, slots=True)
class SubscriptionResult:
    """The result of one subscription.

    Attributes:
        name: the subscription.
        kind: its type.
        consumers: number of its consumers.
        produced: number of published messages: the numbers from 0 on.
        received: numbers received by all consumers together.
        acked: number of messages acked by the clients.
        owner_backlog: backlog of the subscription at the owner.
        owner_dispatched: messages that the owner itself dispatched.
        mark_delete: mark-delete position at the owner, by partition.
        pool_dispatched: messages dispatched by each read-only broker; of an ended one, as last seen.
        interrupted: whether a broker was killed. Messages whose acks it had not passed on then arrive again.
        longest_pause_s: longest time in seconds between two messages of one partition.
    """

    name: str
    kind: str
    consumers: int
    produced: int
    received: list[int]
    acked: int
    owner_backlog: int
    owner_dispatched: int
    mark_delete: list[str]
    pool_dispatched: dict[str, int]
    interrupted: bool = False
    longest_pause_s: float = 0.0

    @property
    def lost(self) -> int:
        """Number of messages that did not arrive."""
        return len(set(range(self.produced)) - set(self.received))

    @property
    def duplicated(self) -> int:
        """Number of repeated arrivals."""
        return len(self.received) - len(set(self.received))

    @property
    def problems(self) -> list[str]:
        """Deviations from exactly-once delivery through the pool."""
        found = []
        if self.lost:
            found.append(f"{self.name}: {self.lost} messages were lost")
        if self.duplicated and not self.interrupted:
            found.append(f"{self.name}: {self.duplicated} messages arrived twice")
        if self.acked != len(self.received):
            found.append(f"{self.name}: {len(self.received)} messages were received, and {self.acked} acked")
        if self.owner_backlog:
            found.append(f"{self.name}: the owner still has a backlog of {self.owner_backlog}")
        if self.owner_dispatched:
            found.append(f"{self.name}: the owner dispatched {self.owner_dispatched} messages itself")
        dispatched = sum(self.pool_dispatched.values())
        if dispatched < len(self.received) and not self.interrupted:
            found.append(f"{self.name}: the pool dispatched {dispatched} of the {len(self.received)} received messages")
        return found


def subscription_result(
    client: dict[str, Any],
    produced: int,
    stats: dict[str, Any],
    internal: dict[str, Any],
    pool: dict[str, dict[str, int]],
    *,
    interrupted: bool = False,
) -> SubscriptionResult:
    """Combine the figures of a client, the owner and the brokers of the pool.

    Args:
        client: result of `clients.py consume`.
        produced: number of published messages.
        stats: partitioned-stats of the topic.
        internal: partitioned-internalStats of the topic.
        pool: dispatched messages by broker and subscription.
        interrupted: whether a broker was killed.
    """
    name = client["subscription"]
    owner = stats["subscriptions"][name]
    partitions = sorted(internal["partitions"].items(), key=lambda item: int(item[0].rpartition("-")[2]))
    return SubscriptionResult(
        name=name,
        kind=client["type"],
        consumers=len(client["received"]),
        produced=produced,
        received=[number for share in client["received"] for number in share],
        acked=client["acked"],
        owner_backlog=owner["msgBacklog"],
        owner_dispatched=owner["msgOutCounter"],
        mark_delete=[partition["cursors"][name]["markDeletePosition"] for _, partition in partitions],
        pool_dispatched={broker: counts.get(name, 0) for broker, counts in pool.items()},
        interrupted=interrupted,
        longest_pause_s=client["longest_pause_s"],
    )


def dispatched_by_subscription(metrics: str) -> dict[str, int]:
    """Return the dispatched messages of each subscription in the metrics of a read-only broker."""
    counts: dict[str, int] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == DISPATCHED:
                name = sample.labels["subscription"]
                counts[name] = counts.get(name, 0) + int(sample.value)
    return counts


def table(rows: list[list[str]]) -> str:
    """Format rows as aligned columns; the first row has the headings."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def render(results: list[SubscriptionResult]) -> str:
    """Return the table of all subscriptions."""
    brokers = sorted({broker for result in results for broker in result.pool_dispatched})
    head = ["subscription", "type", "consumers", "produced", "received", "acked", "lost", "duplicated", "backlog"]
    rows = [[*head, "sent by owner", *(f"sent by {broker}" for broker in brokers)]]
    for result in results:
        numbers = [
            result.consumers,
            result.produced,
            len(result.received),
            result.acked,
            result.lost,
            result.duplicated,
            result.owner_backlog,
            result.owner_dispatched,
            *(result.pool_dispatched.get(broker, 0) for broker in brokers),
        ]
        rows.append([result.name, result.kind, *map(str, numbers)])
    lines = [table(rows), ""]
    lines += [
        f"mark-delete of {result.name} at the owner, ledger:entry of each partition: {', '.join(result.mark_delete)}"
        for result in results
    ]
    return "\n".join(lines)
