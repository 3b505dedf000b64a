"""What the brokers of a split subscription say to each other: the values, and their limits. Pure.

| from | to | with |
|---|---|---|
| member | coordinator | `Report`: what it can take, which leased entries are acked, and which it gives back |
| coordinator | member | `Grant`: new leases, and the time for which all leases of the member are valid |
"""

from __future__ import annotations

from typing import Final, NamedTuple

from readonly_engine.topic.position import Position, PositionRanges

LEASE_S: Final = 5.0
"""Longest time that a member dispatches without an answer of the coordinator."""

HANDOVER_S: Final = 1.0
"""Longest time that a member waits for acks after its coordinator has stopped."""

LAST_ACKS_S: Final = 3.0
"""Longest time that a broker takes acks at the end of a split, while its own lease is valid: below LEASE_S less RENEW_S."""

RENEW_S: Final = 1.0
"""Longest time between two reports of a member."""

RUN_ENTRIES: Final = 100
"""Entries of a lease at most that came back, or may have redelivery counts (dispatcherMaxReadBatchSize)."""

TURN_ENTRIES: Final = 500
"""Entries that one member gets before the next one does: all of some 50 ms at a tail, so that each broker wakes up less often."""

MAX_WANTED: Final = 2_000
"""Entries that a member asks for at most."""

MAX_RANGES: Final = 500
"""Ranges of entries in one list that brokers exchange, so that a report stays a small frame."""

MAX_HELD_RANGES: Final = 5_000
"""Ranges of entries that one member may have. At the limit it gets no more, until some are acked."""

MAX_DEFERRED: Final = 200
"""Delayed entries that one report gives back."""

MAX_COUNTS: Final = 200
"""Runs of entries with redelivery counts in one report or grant of keys, beside the names of consumers."""

MAX_ENTRIES: Final = MAX_RANGES * RUN_ENTRIES
"""Entries of one run in a report at most: longer ranges are several runs."""

MAX_MEMBERS: Final = 100
"""Members of one subscription."""


class Run(NamedTuple):
    """Consecutive entries of one ledger.

    Attributes:
        ledger_id: the ledger.
        first: first entry.
        last: last entry.
        redelivery_count: number of earlier deliveries of each, as far as consumers have asked for them again.
    """

    ledger_id: int
    first: int
    last: int
    redelivery_count: int = 0

    @property
    def range(self) -> tuple[Position, Position]:
        """The entries as a range (lower, upper]."""
        return Position(self.ledger_id, self.first - 1), Position(self.ledger_id, self.last)

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.last - self.first + 1


class Deferred(NamedTuple):
    """A delayed entry that a member gives back: the coordinator leases it again when it is due.

    Attributes:
        ledger_id: the ledger.
        entry_id: the entry.
        due_ms: time from the report until it is due.
    """

    ledger_id: int
    entry_id: int
    due_ms: int


class Report(NamedTuple):
    """A member's report.

    Attributes:
        epoch: the coordinator's epoch that the member knows; 0 for none.
        number: number of the report, which the answer repeats.
        priority: the priority level of the consumers that could take entries; 0 is served first.
        wanted: number of entries that they could take now.
        unacked: number of delivered unacked messages of its consumers, and of leased entries that wait for them.
        received: number of entries that were leased to it on this connection: others are on their way.
        acked: leased entries that are acked since the last report.
        returned: leased entries that it gives back, unacked.
        deferred: delayed entries that it gives back.
        held: all entries that it still has, after a new connection; None otherwise.
        indivisible: whether it has met a message or an ack that only a broker that serves alone can handle.
    """

    epoch: int
    number: int
    priority: int
    wanted: int
    unacked: int
    received: int
    acked: tuple[Run, ...] = ()
    returned: tuple[Run, ...] = ()
    deferred: tuple[Deferred, ...] = ()
    held: tuple[Run, ...] | None = None
    indivisible: bool = False


class Grant(NamedTuple):
    """A coordinator's answer to a report.

    Attributes:
        epoch: epoch of the coordinator.
        number: number of the report; 0 for a grant without a report.
        valid_s: seconds for which all leases are valid, from the time of the report on. 0 if the coordinator stops: the member
            must begin again.
        mark_delete: every entry up to here is acked.
        leases: new leases. If the coordinator stops, entries with redelivery counts, for the next one.
    """

    epoch: int
    number: int
    valid_s: float
    mark_delete: Position
    leases: tuple[Run, ...] = ()

    @property
    def brings(self) -> bool:
        """Whether the member has more to dispatch."""
        return bool(self.leases)

    @property
    def redelivery_counts(self) -> tuple[Run, ...]:
        """Entries with redelivery counts, of a coordinator that stops."""
        return self.leases


def counted_runs(counts: dict[Position, int], limit: int) -> tuple[Run, ...]:
    """Return entries with redelivery counts as runs, the first `limit` of them."""
    counted = PositionRanges()
    counted.add_ranges((Position(one.ledger_id, one.entry_id - 1), one) for one in counts)
    return runs_of(counted, counts)[:limit]


def counts_of(runs: tuple[Run, ...]) -> dict[Position, int]:
    """Return the redelivery counts of the entries of runs that have any."""
    return {
        Position(run.ledger_id, entry_id): run.redelivery_count
        for run in runs
        if run.redelivery_count
        for entry_id in range(run.first, run.last + 1)
    }


def ranges_of(runs: tuple[Run, ...]) -> PositionRanges:
    """Return the entries of runs as a set."""
    ranges = PositionRanges()
    ranges.add_ranges(run.range for run in runs)
    return ranges


def runs_of(ranges: PositionRanges, counts: dict[Position, int] | None = None) -> tuple[Run, ...]:
    """Return the entries of a set as runs, each with one redelivery count.

    Args:
        ranges: the set; each range is of one ledger.
        counts: the redelivery counts that are not 0.
    """
    runs: list[Run] = []
    for lower, upper in ranges:
        ledger_id, first = upper.ledger_id, lower.entry_id + 1
        for entry_id in range(first, upper.entry_id + 1) if counts else ():
            count = counts.get(Position(ledger_id, entry_id), 0) if counts else 0
            if count:
                if first < entry_id:
                    runs.append(Run(ledger_id, first, entry_id - 1))
                runs.append(Run(ledger_id, entry_id, entry_id, count))
                first = entry_id + 1
        runs += [
            Run(ledger_id, begin, min(begin + MAX_ENTRIES - 1, upper.entry_id))
            for begin in range(first, upper.entry_id + 1, MAX_ENTRIES)
        ]
    return tuple(runs)
