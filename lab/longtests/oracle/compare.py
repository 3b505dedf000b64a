"""Comparison of the entries in storage with those that the owner delivers, with an account of every difference.

The owner leaves out markers, entries of aborted transactions, and everything from the first entry of an open transaction on
(TopicTransactionBuffer's maxReadPosition). Storage has them all. So the entries in storage only must be exactly those, by their
own metadata. Any other difference is a defect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message import decode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

    from longtests.oracle.owner import OwnerFrame

TXN_COMMIT: Final = 21
TXN_ABORT: Final = 22
"""Marker types (Markers.java, Pulsar 4.0.8)."""

_SHOWN: Final = 5


class TransactionId(NamedTuple):
    """A transaction: both halves of its id."""

    most: int
    least: int


class StoredFrame(NamedTuple):
    """An entry of storage.

    Attributes:
        position: its position.
        frame: the MESSAGE frame that the engine would send.
        marker: the marker's type; None for other entries.
        transaction: its transaction, or the one that a marker ends; None for none.
        features: its special features, for the coverage of a run.
    """

    position: Position
    frame: bytes
    marker: int | None
    transaction: TransactionId | None
    features: tuple[str, ...] = ()


_COMPRESSIONS = {0: "", 1: "LZ4", 2: "ZLIB", 3: "ZSTD", 4: "SNAPPY"}
_BIG: Final = 1 << 20


def stored_frame(entry: TopicEntry, consumer_id: int, partition: int) -> StoredFrame:
    """Return an entry as the engine would send it, with data of its metadata."""
    frame = entry.frame(consumer_id, partition)
    try:
        metadata = decode_metadata(entry.payload)
    except MalformedFrameError:
        return StoredFrame(entry.position, frame, None, None, ("no metadata",))
    found = {
        "marker": metadata.HasField("marker_type"),
        "in a transaction": metadata.HasField("txnid_most_bits"),
        "batched": metadata.HasField("num_messages_in_batch"),
        "with a key": metadata.HasField("partition_key"),
        "with properties": bool(metadata.properties),
        "chunk": metadata.HasField("chunk_id"),
        "encrypted": bool(metadata.encryption_keys),
        "delayed": metadata.HasField("deliver_at_time"),
        "empty": not metadata.uncompressed_size,
        "above 1 MiB": len(frame) > _BIG,
        _COMPRESSIONS.get(metadata.compression, "unknown compression"): True,
    }
    transaction = None
    if metadata.HasField("txnid_most_bits"):
        transaction = TransactionId(metadata.txnid_most_bits, metadata.txnid_least_bits)
    marker = metadata.marker_type if metadata.HasField("marker_type") else None
    return StoredFrame(
        entry.position, frame, marker, transaction, tuple(name for name, there in found.items() if name and there)
    )


@dataclass(slots=True)
class Comparison:
    """Result of one topic, or the sum of many.

    Attributes:
        topics: number of topics.
        stored: entries in storage.
        delivered: entries that the owner sent.
        frame_bytes: bytes of the owner's frames.
        markers: markers, in storage only.
        aborted: entries of aborted transactions, in storage only.
        held_back: entries from the first one of an open transaction on, in storage only.
        features: numbers of entries by special feature.
        differences: number of entries with any other difference.
        examples: descriptions of the first few differences.
    """

    topics: int = 0
    stored: int = 0
    delivered: int = 0
    frame_bytes: int = 0
    markers: int = 0
    aborted: int = 0
    held_back: int = 0
    features: dict[str, int] = field(default_factory=dict)
    differences: int = 0
    examples: list[str] = field(default_factory=list)

    def differ(self, what: str) -> None:
        """Count a difference."""
        self.differences += 1
        if len(self.examples) < _SHOWN:
            self.examples.append(what)

    def add(self, other: Comparison) -> None:
        """Add the result of another topic."""
        for name in ("topics", "stored", "delivered", "frame_bytes", "markers", "aborted", "held_back", "differences"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for feature, entries in other.features.items():
            self.features[feature] = self.features.get(feature, 0) + entries
        self.examples += other.examples[: _SHOWN - len(self.examples)]


def expected_at_owner(stored: list[StoredFrame], result: Comparison) -> Iterator[StoredFrame]:
    """Yield the entries of storage that the owner must deliver; count the others."""
    outcome = {e.transaction: e.marker for e in stored if e.marker in {TXN_COMMIT, TXN_ABORT}}
    held_back = False
    for entry in stored:
        if entry.marker is None and entry.transaction is not None and entry.transaction not in outcome:
            held_back = True
        if entry.marker is not None:
            result.markers += 1
        elif held_back:
            result.held_back += 1
        elif entry.transaction is not None and outcome[entry.transaction] == TXN_ABORT:
            result.aborted += 1
        else:
            yield entry


def compare(topic: str, stored: list[StoredFrame], delivered: Iterable[OwnerFrame]) -> Comparison:
    """Compare one topic: the same positions in the same order, the same bytes.

    Args:
        topic: its name, for messages.
        stored: all entries of storage, in the order of the reads.
        delivered: all frames of the owner, in order.
    """
    result = Comparison(topics=1, stored=len(stored))
    for entry in stored:
        for feature in entry.features:
            result.features[feature] = result.features.get(feature, 0) + 1
    for before, after in pairwise(stored):
        if after.position <= before.position:
            result.differ(f"{topic}: storage returned {after.position} after {before.position}")
    expected = expected_at_owner(stored, result)
    wanted = next(expected, None)
    for sent in delivered:
        result.delivered += 1
        result.frame_bytes += len(sent.frame)
        while wanted is not None and wanted.position < sent.position:
            result.differ(f"{topic}: {wanted.position} is in storage, the owner did not send it")
            wanted = next(expected, None)
        if wanted is None or wanted.position > sent.position:
            result.differ(f"{topic}: the owner sent {sent.position}, which storage does not have, or not for delivery")
            continue
        if wanted.frame != sent.frame:
            result.differ(f"{topic}: {sent.position} differs {_where(wanted.frame, sent.frame)}")
        wanted = next(expected, None)
    while wanted is not None:
        result.differ(f"{topic}: {wanted.position} is in storage, the owner did not send it")
        wanted = next(expected, None)
    return result


def _where(stored: bytes, sent: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(stored, sent, strict=False)) if a != b), min(len(stored), len(sent)))
    return f"at byte {at}: {stored[at : at + 16].hex()} in storage, {sent[at : at + 16].hex()} from the owner"
