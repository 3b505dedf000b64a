"""Reports of brokers about the bindings that they hold, and one report of a pod from those of its workers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from readonly_operator.model.lookup import Entry


@dataclass(frozen=True, slots=True)
class Lag:
    """Backlog of the slowest subscription of a topic at one broker.

    Attributes:
        topic: full name.
        subscription: the slowest one.
        entries: entries that it has not acked.
    """

    topic: str
    subscription: str
    entries: int


@dataclass(frozen=True, slots=True)
class BindingStats:
    """Statistics of a binding at one broker.

    Attributes:
        topics: number of matched topics; None while the broker does not know.
        partitions: number of their partitions.
        lag: of some topics that the broker serves.
    """

    topics: int | None = None
    partitions: int | None = None
    lag: tuple[Lag, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """Report of one broker.

    Attributes:
        name: of the pod.
        reachable: whether the broker answered; with workers, whether all of them did.
        revision: of the config that it holds; None for none yet.
        bindings: the bindings that it holds; with workers, those that all of them hold.
        partly_loaded: further bindings that only some of its workers hold.
        stats: statistics by the binding's name.
        serving: whether its pod is ready.
        problem: why it did not answer, or its own error about the config; empty for none.
        unready: why it is not ready, from its /readyz; empty when it is ready or gives no reason.
        bookkeeper_instance: id of the source cluster's BookKeeper; empty while the broker does not know it.
    """

    name: str
    reachable: bool
    revision: str | None = None
    bindings: Collection[Entry] = ()
    partly_loaded: Collection[Entry] = ()
    stats: Mapping[str, BindingStats] = field(default_factory=dict)
    serving: bool = False
    problem: str = ""
    unready: str = ""
    bookkeeper_instance: str = ""

    def has_loaded(self, binding: str) -> bool:
        """Return whether some process of the broker holds a binding of this full name."""
        return any(entry.name == binding for held in (self.bindings, self.partly_loaded) for entry in held)


def merged(workers: Sequence[BrokerReport]) -> BrokerReport:
    """Return the report of a pod: it holds what all its workers hold, because a client may reach any of them.

    Args:
        workers: reports of the pod's workers in their order, at least one.
    """
    if len(workers) == 1:
        return workers[0]
    first = workers[0]
    silent = [(index, report) for index, report in enumerate(workers) if not report.reachable]
    revisions = sorted({report.revision or "none" for report in workers if report.reachable})
    common = frozenset(first.bindings).intersection(*(report.bindings for report in workers[1:]))
    problems = [(index, report) for index, report in silent or enumerate(workers) if report.problem]
    return BrokerReport(
        first.name,
        reachable=not silent,
        # none of the workers' revisions alone: as long as they differ, the pod does not hold the desired one
        revision=first.revision if len(revisions) == 1 and not silent else " and ".join(revisions) or None,
        bindings=common,
        partly_loaded=frozenset(first.bindings).union(*(report.bindings for report in workers)) - common,
        stats={
            name: _sum([report.stats[name] for report in workers if name in report.stats]) for name in _names(workers)
        },
        serving=first.serving,
        problem="; ".join(f"worker {index}: {report.problem}" for index, report in problems),
        unready=next((report.unready for report in workers if report.unready), ""),
        bookkeeper_instance=next((report.bookkeeper_instance for report in workers if report.bookkeeper_instance), ""),
    )


def _names(workers: Sequence[BrokerReport]) -> list[str]:
    return list(dict.fromkeys(name for report in workers for name in report.stats))


def _sum(stats: Sequence[BindingStats]) -> BindingStats:
    """Return the statistics of a binding at all workers: each matches the same topics, and serves other consumers."""
    known = [(one.topics, one.partitions or 0) for one in stats if one.topics is not None]
    topics, partitions = max(known, default=(None, None))
    return BindingStats(topics, partitions, tuple(lag for one in stats for lag in one.lag))
