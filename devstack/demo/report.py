"""The report of the demo, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SubscriptionResult:
    """The result of one subscription.

    Attributes:
        name: the subscription.
        kind: its type.
        consumers: how many consumers it had.
        produced: how many messages there were: the numbers from 0 on.
        received: the numbers that arrived, of all consumers together.
        acked: how many were acked by the clients.
        owner_backlog: messages that the owner still holds for it.
        owner_dispatched: messages that the owner itself sent to it.
        mark_delete: the owner's mark-delete position in each partition.
        pool_dispatched: messages that each read-only broker sent to it.
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

    @property
    def lost(self) -> int:
        """Messages that never arrived."""
        return len(set(range(self.produced)) - set(self.received))

    @property
    def duplicated(self) -> int:
        """Arrivals beyond the first of each message."""
        return len(self.received) - len(set(self.received))

    @property
    def problems(self) -> list[str]:
        """Everything that is not as it should be."""
        found = []
        if self.lost:
            found.append(f"{self.name}: {self.lost} messages were lost")
        if self.duplicated:
            found.append(f"{self.name}: {self.duplicated} messages arrived twice")
        if self.owner_backlog:
            found.append(f"{self.name}: the owner still has a backlog of {self.owner_backlog}")
        if self.owner_dispatched:
            found.append(f"{self.name}: the owner dispatched {self.owner_dispatched} messages itself")
        return found


def subscription_result(
    client: dict[str, Any],
    produced: int,
    stats: dict[str, Any],
    internal: dict[str, Any],
    pool: dict[str, dict[str, int]],
) -> SubscriptionResult:
    """Put together what a client, the owner and the brokers of the pool say.

    Args:
        client: the result of `clients.py consume`.
        produced: how many messages there were.
        stats: the topic's partitioned-stats.
        internal: the topic's partitioned-internalStats.
        pool: broker → subscription → messages dispatched.
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
    )


def table(rows: list[list[str]]) -> str:
    """Rows as aligned columns, the first row as their heads."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def render(results: list[SubscriptionResult]) -> str:
    """The table of all subscriptions."""
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
        f"mark-delete of {result.name} at the owner, by partition: {', '.join(result.mark_delete)}"
        for result in results
    ]
    return "\n".join(lines)
