"""A subscription's acks in transactions, with the owner's log played."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.subscription import pending_acks
from readonly_engine.broker.subscription.pending_acks import PendingAckSource
from readonly_engine.broker.subscription.transactions import TransactionAcks
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.pending_ack import TxnAckRecord
from readonly_engine.wire.pending_ack_pb2 import Operation
from readonly_engine.wire.pulsar_pb2 import CommandAck

TXN = (0, 1)
FIRST, SECOND = Position(1, 0), Position(1, 1)


class Reader:
    """The owner's log: each entry stands for a list of records."""

    def __init__(self, log, _first):
        self._log = log

    async def entries(self, *, follow=False):
        while True:
            while self._log.written:
                yield SimpleNamespace(stored=self._log.written.pop(0))
            if not follow:
                return
            self._log.more.clear()
            await self._log.more.wait()


class Log:
    """An open log that tests write to."""

    topic = "pending acks"

    def __init__(self, *written):
        self.written = list(written)
        self.more = asyncio.Event()
        self.closed = False

    async def opened(self):
        pass

    def close(self):
        self.closed = True

    def write(self, *records):
        self.written.append(records)
        self.more.set()


class Subscription:
    """Keeps what it is called with."""

    def __init__(self, topic, log):
        for _ in range(3):
            topic.write()
        self.withheld, self.ended = [], asyncio.Queue()
        self.cursor = CursorReplica(topic.chain, EARLIEST)
        source = PendingAckSource(lambda: log, self.last)
        self.acks = TransactionAcks(
            self.cursor, source, lambda positions, by: self.withheld.append((positions, by)), self.ended.put_nowait
        )

    async def last(self):
        return None


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """The owner's log needs no decoding here."""
    monkeypatch.setattr(pending_acks, "TopicReader", Reader)
    monkeypatch.setattr(pending_acks, "decode_txn_acks", lambda stored: stored)


def record(operation, *acked):
    return TxnAckRecord(operation, TXN, False, tuple((position, 0) for position in acked))


@pytest.mark.parametrize("operation", [Operation.COMMIT, Operation.ABORT])
async def test_a_clients_ack_is_withheld_until_the_owners_log_ends_the_transaction(topic, operation):
    log, consumer = Log(), object()
    subscription = Subscription(topic, log)
    ack = CommandAck(ack_type=CommandAck.Individual)
    ack.message_id.add(ledger_id=FIRST.ledger_id, entry_id=FIRST.entry_id)
    subscription.acks.add(TXN, ack, consumer)
    assert subscription.withheld == [([FIRST], consumer)]
    assert subscription.ended.empty()
    log.write(record(operation))
    ended = await asyncio.wait_for(subscription.ended.get(), 10)
    assert ended == (([ack], []) if operation == Operation.COMMIT else ([], [FIRST]))
    subscription.acks.close()
    assert log.closed


async def test_a_replay_withholds_the_acks_of_transactions_that_are_open(topic):
    log = Log([record(Operation.ACK, FIRST)], [record(Operation.ABORT)], [record(Operation.ACK, SECOND)])
    subscription = Subscription(topic, log)
    await subscription.acks.replay()
    assert subscription.withheld == [([FIRST], None), ([SECOND], None)]
    assert subscription.ended.get_nowait() == ([], [FIRST])
    assert [subscription.cursor.is_acked(one) for one in (FIRST, SECOND)] == [False, True]
    subscription.acks.close()
