"""Entries for the dispatchers: verified once, parsed once, framed once for all consumers that share an id."""

from __future__ import annotations

from readonly_engine.wire.bit_set import words_of
from readonly_engine.wire.commands import NO_EPOCH, encode_message_frame
from readonly_engine.wire.entry_view import EntryView, encode_views
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message import publish_time

_FRAMES_KEPT = 4
"""Frames for this many keys (consumer id, epoch, exposed) are kept: most connections have one consumer, and it has id 0."""


class TopicEntry(EntryView):
    """One entry of a topic."""

    __slots__ = ()

    @property
    def in_transaction(self) -> bool:
        """Whether it was published in a transaction, which may be open or aborted."""
        return self.txn is not None and not self.marker

    @property
    def timestamp(self) -> int:
        """Publish time in ms since the epoch: of the owner's clock if the cluster stores it, else of the producer's.

        0 for an entry that no Pulsar producer wrote. The body is neither copied nor checked, so its size does not matter.
        """
        try:
            return publish_time(self.stored)
        except MalformedFrameError:
            return 0

    def frame(
        self,
        consumer_id: int,
        partition: int,
        epoch: int = NO_EPOCH,
        exposed: bool = False,
        redelivery_count: int = 0,
        unacked: int = 0,
    ) -> bytes:
        """Return the MESSAGE frame for a consumer; the same bytes object where id, epoch and `exposed` are the same.

        Args:
            consumer_id: the consumer's id on its connection.
            partition: index of the partition, -1 for none.
            epoch: the consumer's epoch.
            exposed: whether to send the owner's own metadata, too.
            redelivery_count: number of earlier deliveries of the entry.
            unacked: the unacked messages of a partly acked batch, as bits; 0 for the complete batch.
        """
        if unacked:
            return encode_message_frame(
                consumer_id,
                self.ledger_id,
                self.entry_id,
                partition,
                self.stored if exposed else self.payload,
                redelivery_count,
                consumer_epoch=epoch,
                ack_set=words_of(unacked),
            )
        if redelivery_count:
            return encode_views((self,), consumer_id, partition, epoch, redelivery_count, exposed)
        key = (consumer_id, epoch, exposed)
        frames = self._frames
        if frames is None:
            frames = self._frames = {}
        frame = frames.get(key)
        if frame is None:
            frame = encode_views((self,), consumer_id, partition, epoch, 0, exposed)
            if len(frames) < _FRAMES_KEPT:
                frames[key] = frame
        return frame
