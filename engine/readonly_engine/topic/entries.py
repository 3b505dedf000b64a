"""Entries as dispatchers use them: verified once, looked into once, framed once for all consumers that share an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.topic.position import Position
from readonly_engine.wire.batch import decode_stored_entry
from readonly_engine.wire.bit_set import words_of
from readonly_engine.wire.commands import NO_EPOCH, encode_message_frame
from readonly_engine.wire.errors import MalformedFrameError, WireError
from readonly_engine.wire.message import StoredMessage, decode_metadata, decode_stored
from readonly_engine.wire.sticky_key import NO_KEY, key_hash, sticky_key

if TYPE_CHECKING:
    from readonly_engine.wire.entry import Entry

_FRAMES_KEPT = 4
"""Frames for this many (consumer id, epoch) pairs are kept: most connections have one consumer, and it has id 0."""

_NO_HASH = -1


class TopicEntry:
    """One entry of a topic.

    Attributes:
        position: where it stands.
        payload: the bytes for a MESSAGE frame.
        prefix: what the owner wrote before them for itself; mostly nothing.
        size: bytes, as the cache counts them.
        messages: how many messages it holds, which is what it costs in permits.
        marker: whether no consumer may see it: a marker, or no message at all.
        deliver_at: when a Shared subscription may get it, in ms since the epoch; 0 for at once.
        txn: the transaction that it was published in, or that the marker ends: most and least bits; None for none.
        aborts: whether it is the marker of an aborted transaction.
        chunk: of a part of a large message: the message's id, the part's index, and how many parts there are; else None.
    """

    __slots__ = (
        "_frames",
        "_sticky_hash",
        "aborts",
        "chunk",
        "deliver_at",
        "marker",
        "messages",
        "payload",
        "position",
        "prefix",
        "size",
        "txn",
    )

    def __init__(self, entry: Entry) -> None:
        try:
            stored = decode_stored(entry.payload)
        except MalformedFrameError:
            # Not written by a Pulsar producer: the owner's dispatcher leaves it out, too (AbstractBaseDispatcher).
            stored = StoredMessage(entry.payload, 1, marker=True)
        self.position = Position(entry.ledger_id, entry.entry_id)
        payload, self.messages, self.marker, self.deliver_at, self.txn, self.aborts, self.chunk = stored
        self.payload = payload
        self.prefix = entry.payload[: len(entry.payload) - len(payload)]
        self.size = len(entry.payload)
        self._sticky_hash = _NO_HASH
        self._frames: dict[tuple[int, int], bytes] = {}

    @property
    def in_transaction(self) -> bool:
        """Whether it was published in a transaction, which may be open or aborted."""
        return self.txn is not None and not self.marker

    @property
    def sticky_hash(self) -> int:
        """The hash of the key that it goes by on Key_Shared, 31 bits."""
        if self._sticky_hash == _NO_HASH:
            try:
                key = sticky_key(decode_metadata(self.payload))
            except MalformedFrameError:
                key = NO_KEY
            self._sticky_hash = key_hash(key)
        return self._sticky_hash

    @property
    def stored(self) -> bytes:
        """The payload as the owner stored it."""
        return self.prefix + self.payload

    @property
    def timestamp(self) -> int:
        """When it was published, in ms since the epoch: by the owner's clock where the cluster notes it, else by the producer's.

        0 for an entry that no Pulsar producer wrote.
        """
        try:
            entry = decode_stored_entry(self.stored)
        except WireError:
            return 0
        return entry.broker_timestamp or entry.metadata.publish_time

    def frame(
        self, consumer_id: int, partition: int, epoch: int = NO_EPOCH, redelivery_count: int = 0, unacked: int = 0
    ) -> bytes:
        """The MESSAGE frame for a consumer; the same bytes object for every consumer with the same id and epoch.

        Args:
            consumer_id: the consumer's id on its connection.
            partition: index of the partition, -1 for none.
            epoch: the consumer's epoch.
            redelivery_count: how often the entry was delivered before.
            unacked: of a batch that is acked in part, the messages that are not, as bits; 0 for the whole.
        """
        if redelivery_count or unacked:
            return self._encode(consumer_id, partition, epoch, redelivery_count, unacked)
        key = (consumer_id, epoch)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._encode(consumer_id, partition, epoch, 0)
            if len(self._frames) < _FRAMES_KEPT:
                self._frames[key] = frame
        return frame

    def _encode(self, consumer_id: int, partition: int, epoch: int, redelivery_count: int, unacked: int = 0) -> bytes:
        ledger_id, entry_id = self.position
        return encode_message_frame(
            consumer_id,
            ledger_id,
            entry_id,
            partition,
            self.payload,
            redelivery_count,
            consumer_epoch=epoch,
            ack_set=words_of(unacked) if unacked else (),
        )
