"""What a task gets: all that it needs to read its entries, so that it never asks the metadata store. No secret is in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.topic.position import Position
    from readonly_engine.wire.ledgers import LedgerMetadata

    from readonly_spark.options import Options
    from readonly_spark.values.schema import ValueSchema


@dataclass(frozen=True, slots=True)
class TaskLedger:
    """One ledger, and where it is.

    Attributes:
        ledger_id: its id.
        last: its last entry that may be read.
        metadata: its bookies; None where it is in tiered storage only.
        offload: how it was offloaded (OffloadContext, serialized); empty where it was not.
        entry_bytes: the average size of an entry, about.
    """

    ledger_id: int
    last: int
    metadata: LedgerMetadata | None
    offload: bytes = b""
    entry_bytes: float = 16 << 10


@dataclass(frozen=True, slots=True)
class Compacted:
    """A piece of a compacted ledger: entries that stood in the topic from `start` on and before `end` are wanted."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class TaskPiece:
    """Entries of one ledger.

    Attributes:
        topic: the topic or partition, in full.
        ledger: the ledger.
        first: the first entry.
        last: the last entry, included.
        aborted: transactions whose messages are left out.
        earlier: the topic's ledgers before this one, the nearest first: chunks of the first messages may be there.
        compacted: set where the ledger is what compaction has left.
    """

    topic: str
    ledger: TaskLedger
    first: int
    last: int
    aborted: frozenset[tuple[int, int]] = frozenset()
    earlier: tuple[TaskLedger, ...] = ()
    compacted: Compacted | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one task.

    Attributes:
        pieces: what to read, in this order.
        addresses: where the bookies listen.
        options: how to read.
        schemas: how the values of each topic are decoded; none for not at all.
    """

    pieces: tuple[TaskPiece, ...]
    addresses: dict[str, tuple[str, int]]
    options: Options
    schemas: Mapping[str, ValueSchema] = field(default_factory=dict)
