"""A topic that grows, for cursors and dispatchers: real ledgers in a real chain, real entries."""

import pytest
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MarkerType, MessageMetadata

from tests.support.ledgers import ledger_list


class Topic:
    """What a writer wrote: ledgers of entries. The chain knows of everything."""

    def __init__(self):
        self.chain = LedgerChain()
        self.ledgers = {1: []}
        self.tell()

    def write(self, messages=1, *, marker=False, key=None, deliver_at=0, chunk=None):
        ledger_id = max(self.ledgers)
        entries = self.ledgers[ledger_id]
        metadata = MessageMetadata(
            producer_name="p", sequence_id=len(entries), publish_time=1, num_messages_in_batch=messages
        )
        if marker:
            metadata.marker_type = MarkerType.TXN_COMMIT
        if key is not None:
            metadata.partition_key = key
        if deliver_at:
            metadata.deliver_at_time = deliver_at
        if chunk is not None:
            metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg = chunk
        encoded = metadata.SerializeToString()
        payload = len(encoded).to_bytes(4, "big") + encoded
        entries.append(TopicEntry(Entry(ledger_id, len(entries), len(entries) - 1, 0, payload)))
        self.chain.lac_advanced(ledger_id, len(entries) - 1)
        return Position(ledger_id, len(entries) - 1)

    def roll(self, step=1):
        self.ledgers[max(self.ledgers) + step] = []
        self.tell()

    def trim(self):
        """Delete the first ledger, unless it is the only one."""
        if len(self.ledgers) > 1:
            del self.ledgers[min(self.ledgers)]
            self.tell()

    def tell(self):
        *closed, last = self.ledgers
        self.chain.topic_changed(
            ledger_list(*((closed_id, len(self.ledgers[closed_id])) for closed_id in closed), last)
        )

    @property
    def entries(self):
        """Every entry, in order."""
        return [entry for entries in self.ledgers.values() for entry in entries]

    @property
    def positions(self):
        return [entry.position for entry in self.entries]

    @property
    def messages(self):
        """The positions that consumers must get, in order."""
        return [entry.position for entry in self.entries if not entry.marker]

    def read(self, first, count):
        """As TopicLog.cached: from a position on, without a gap."""
        found = []
        while len(found) < count and self.chain.readable(first):
            found.append(self.ledgers[first.ledger_id][first.entry_id])
            first = self.chain.after(first)
        return found


@pytest.fixture
def topic():
    """An empty topic."""
    return Topic()


@pytest.fixture(scope="session")
def make_topic():
    """Makes empty topics, for tests that need one for each example."""
    return Topic
