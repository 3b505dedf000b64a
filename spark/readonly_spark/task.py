"""The plan of one Spark task: all that it needs to read its entries without the metadata store. It holds no secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.ledgers import LedgerMetadata

    from readonly_spark.options import Options
    from readonly_spark.rows.partial_entry import PartialEntry
    from readonly_spark.values.schema import ValueSchema


EARLIER_LEDGERS: Final = 2
"""Preceding ledgers that a task searches for the first chunks of a message."""

_MANAGED_LEDGERS: Final = "/managed-ledgers/"


def offload_path(topic: TopicName) -> str:
    """Return the name of a topic's managed ledger, which names of offloaded ledgers begin with."""
    return topic.managed_ledger_path.removeprefix(_MANAGED_LEDGERS)


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """One ledger and the places that store it.

    Attributes:
        ledger_id: the ledger's id.
        last: the last entry that may be read.
        metadata: its bookies; None if the ledger exists in tiered storage only.
        offload: the serialized OffloadContext; empty if the ledger was not offloaded.
        entry_bytes: the estimated average size of an entry.
    """

    ledger_id: int
    last: int
    metadata: LedgerMetadata | None
    offload: bytes = b""
    entry_bytes: float = 16 << 10


@dataclass(frozen=True, slots=True)
class CompactedRange:
    """Positions to read of a compacted ledger, by their original place in the topic: from `start` up to, not including, `end`."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class TaskRange:
    """Consecutive entries of one ledger for one task.

    Attributes:
        topic: the full name of the topic or partition.
        ledger: the ledger.
        first: the first entry.
        last: the last entry, included.
        aborted: transactions whose messages are skipped.
        earlier: the preceding ledgers of the topic, nearest first: they may hold the first chunks of a message.
        compacted: set if the ledger was written by compaction.
        resumed: whether the query may have read entries before, of ledgers that were trimmed since. So the first chunks of a
            message may have existed.
        partial: entries of the topic that are read in part.
    """

    topic: str
    ledger: LedgerLocation
    first: int
    last: int
    aborted: frozenset[tuple[int, int]] = frozenset()
    earlier: tuple[LedgerLocation, ...] = ()
    compacted: CompactedRange | None = None
    resumed: bool = False
    partial: tuple[PartialEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The work of one task.

    Attributes:
        ranges: the entries to read, in this order.
        addresses: the host and port of each bookie.
        options: the options of the source.
        schemas: the schema of the values of each topic of the ranges; empty if values are not decoded.
        read_rate: bytes per second from bookies; None for no limit.
    """

    ranges: tuple[TaskRange, ...]
    addresses: dict[str, tuple[str, int]]
    options: Options
    schemas: Mapping[str, ValueSchema] = field(default_factory=dict)
    read_rate: float | None = None


def task_read_rate(options: Options, tasks: int) -> float | None:
    """Return the limit of each of so many tasks, in bytes per second; None for no limit.

    Tasks do not know of each other, so each has its share of the limit for all that may run at once.
    """
    limits: list[float] = [] if options.read_rate is None else [options.read_rate]
    if options.query_read_rate is not None:
        limits.append(options.query_read_rate / max(min(tasks, options.concurrent_tasks or tasks), 1))
    return min(limits, default=None)
