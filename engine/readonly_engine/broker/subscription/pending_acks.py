"""Acks in transactions (PIP-31): their entries are withheld until the transaction ends, and delivered again after an abort.

The broker relays such an ack, and the owner writes it to a managed ledger beside the topic's (MLPendingAckStore). That log also
has the ends of transactions. The broker has no other source for them, because clients end transactions on their coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.background import run_forever
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.topic_name import TopicName
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.reading import TopicReader
from readonly_engine.wire.bit_set import ack_set_bits, words_of
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.pending_ack import TxnAckRecord, decode_txn_acks
from readonly_engine.wire.pulsar_pb2 import CommandAck, MessageIdData

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.topic.log import TopicLog

log = logging.getLogger(__name__)

REPLAY_TIMEOUT_S = 20.0

RETRY_S = 5.0


def pending_ack_log_name(topic: TopicName, subscription: str) -> TopicName:
    """Return the name of the managed ledger with a subscription's acks in transactions, as a topic name."""
    name = f"{topic.local_name}-{subscription}__transaction_pending_ack"
    return TopicName(topic.domain, topic.tenant, topic.namespace, name)


async def has_pending_acks(cluster: ClusterMetadata, topic: TopicName, subscription: str) -> bool:
    """Return whether a subscription ever had acks in transactions; True if this is unknown."""
    try:
        return await cluster.topic(pending_ack_log_name(topic, subscription)) is not None
    except (MetadataError, WireError) as error:
        log.info("acks in transactions unknown: topic=%s subscription=%s error=%s", topic, subscription, error)
        return True


class EndedTransaction(NamedTuple):
    """Effects of the end of a transaction.

    Attributes:
        acks: its acks, now in force; none after an abort.
        released: entries to deliver again after an abort.
    """

    acks: list[CommandAck]
    released: list[Position]


@dataclass(slots=True)
class _OpenTransaction:
    """Acks of an open transaction.

    Attributes:
        entries: completely acked entries.
        parts: partly acked batches, with the bits of their unacked messages.
        up_to: message id of its cumulative ack.
    """

    entries: set[Position] = field(default_factory=set)
    parts: dict[Position, int] = field(default_factory=dict)
    up_to: MessageIdData | None = None


class PendingAcks:
    """The acks of open transactions. Pure.

    Args:
        cursor: the copy of the cursor, which withholds completely acked entries.
    """

    __slots__ = ("_cursor", "_open")

    def __init__(self, cursor: CursorReplica) -> None:
        self._cursor = cursor
        self._open: dict[tuple[int, int], _OpenTransaction] = {}

    def add(self, txn: tuple[int, int], ack: CommandAck) -> list[Position]:
        """Add an ack in a transaction; return the entries that it withholds.

        Entries that are acked, also in another transaction, are ignored: the owner refuses such acks.
        """
        one = self._open.setdefault(txn, _OpenTransaction())
        if ack.ack_type == CommandAck.Cumulative:
            # The owner still delivers such entries (PendingAckHandleImpl), and accepts cumulative acks of one transaction only.
            if ack.message_id and all(other is one or other.up_to is None for other in self._open.values()):
                one.up_to = ack.message_id[0]
            return []
        found = []
        for message_id in ack.message_id:
            position = Position(message_id.ledger_id, message_id.entry_id)
            if message_id.ack_set:
                unacked = ack_set_bits(message_id.ack_set)
                one.parts[position] = unacked & one.parts.get(position, unacked)
                if one.parts[position]:
                    continue
                del one.parts[position]
            if not self._cursor.is_acked(position):
                one.entries.add(position)
                self._cursor.withhold(position)
                found.append(position)
        return found

    def end(self, txn: tuple[int, int], *, committed: bool) -> EndedTransaction:
        """Remove a transaction, and return the effects of its end."""
        one = self._open.pop(txn, None)
        if one is None:
            return EndedTransaction([], [])
        for position in one.entries:
            self._cursor.release(position)
        if not committed:
            return EndedTransaction([], sorted(one.entries))
        acks = []
        if one.entries or one.parts:
            ack = CommandAck(ack_type=CommandAck.Individual)
            for position in sorted(one.entries):
                ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id)
            for position, unacked in sorted(one.parts.items()):
                ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id, ack_set=words_of(unacked))
            acks.append(ack)
        if one.up_to is not None:
            acks.append(CommandAck(ack_type=CommandAck.Cumulative, message_id=[one.up_to]))
        return EndedTransaction(acks, [])


def ack_of_record(record: TxnAckRecord) -> CommandAck:
    """Return the ack of a record in the owner's log, as the client has sent it."""
    ack = CommandAck(ack_type=CommandAck.Cumulative if record.cumulative else CommandAck.Individual)
    for (ledger_id, entry_id), unacked in record.acked:
        ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id, ack_set=words_of(unacked))
    return ack


class PendingAckSource(NamedTuple):
    """Source of the owner's log of one subscription.

    Attributes:
        open_log: opens the log.
        last: requests the last entry of the log from the owner; returns None if it does not answer.
    """

    open_log: Callable[[], TopicLog]
    last: Callable[[], Awaitable[Position | None]]


class PendingAckLog:
    """Reads and follows the owner's log of one subscription.

    Args:
        source: source of the log.
        on_record: called with every record, in order.
    """

    def __init__(self, source: PendingAckSource, on_record: Callable[[TxnAckRecord], None]) -> None:
        self._log = source.open_log()
        self._last = source.last
        self._reader = TopicReader(self._log, EARLIEST)
        self._on_record = on_record
        self._following: asyncio.Task[None] | None = None

    async def replay(self) -> None:
        """Read all records, then follow the log.

        Raises:
            MetadataError: the log's ledgers are unknown.
            BookKeeperError: the log cannot be read.
            TimeoutError: the log was not read within REPLAY_TIMEOUT_S.
        """
        async with asyncio.timeout(REPLAY_TIMEOUT_S):
            await self._log.opened()
            last = await self._last()  # bookies may have an older LAC
            if last is not None:
                self._log.confirm(last)
            async for entry in self._reader.entries():
                self._decode(entry.stored)
        self.follow()

    def follow(self) -> None:
        """Follow the log: read new records as they are written."""
        if self._following is None:
            self._following = run_forever(self._follow, f"following {self._log.topic}")

    def close(self) -> None:
        """Stop following the log, and close it."""
        if self._following is not None:
            self._following.cancel()
        self._log.close()

    async def _follow(self) -> None:
        while True:
            try:
                async for entry in self._reader.entries(follow=True):
                    self._decode(entry.stored)
            except BookKeeperError as error:
                log.warning("log of acks not read: log=%s retry_in=%gs error=%s", self._log.topic, RETRY_S, error)
            await asyncio.sleep(RETRY_S)

    def _decode(self, payload: bytes) -> None:
        try:
            records = decode_txn_acks(payload)
        except WireError as error:
            log.warning("invalid record in the log of acks: log=%s error=%s", self._log.topic, error)
            return
        for record in records:
            self._on_record(record)
