"""Acks in transactions of one subscription: the acks that are open, and the owner's log of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.subscription.pending_acks import PendingAckLog, PendingAcks, ack_of_record
from readonly_engine.wire.pending_ack_pb2 import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.subscription.pending_acks import EndedTransaction, PendingAckSource
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pending_ack import TxnAckRecord
    from readonly_engine.wire.pulsar_pb2 import CommandAck


class TransactionAcks:
    """Withholds entries that are acked in open transactions; made for the first such ack.

    Args:
        cursor: the cursor replica.
        source: the owner's log.
        withhold: called with entries that must not be delivered, and the consumer that has acked them, if it is here.
        on_ended: called with the acks and entries that the end of a transaction releases.
    """

    __slots__ = ("_log", "_mark_pending_ack", "_on_ended", "_pending")

    def __init__(
        self,
        cursor: CursorReplica,
        source: PendingAckSource,
        withhold: Callable[[list[Position], Subscriber | None], None],
        on_ended: Callable[[EndedTransaction], None],
    ) -> None:
        self._mark_pending_ack = withhold
        self._on_ended = on_ended
        self._pending = PendingAcks(cursor)
        self._log = PendingAckLog(source, self._on_record)

    async def replay(self) -> None:
        """Read the acks of open transactions from the owner's log.

        Raises:
            MetadataError: the ledgers of the log are unknown.
            BookKeeperError: the log cannot be read.
            TimeoutError: the log was not read in time.
        """
        await self._log.replay()

    def add(self, txn: tuple[int, int], ack: CommandAck, consumer: Subscriber) -> None:
        """Add a consumer's ack in a transaction, and follow the owner's log for the transaction's end."""
        self._mark_pending_ack(self._pending.add(txn, ack), consumer)
        self._log.follow()

    def close(self) -> None:
        """Stop following the log."""
        self._log.close()

    def _on_record(self, record: TxnAckRecord) -> None:
        """Apply a record of the owner's log: an ack in a transaction, or the end of one."""
        if record.operation == Operation.ACK:
            self._mark_pending_ack(self._pending.add(record.txn, ack_of_record(record)), None)
        else:
            self._on_ended(self._pending.end(record.txn, committed=record.operation == Operation.COMMIT))
