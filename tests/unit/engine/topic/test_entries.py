from __future__ import annotations

import pytest
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import Entry, decode_entry


@pytest.fixture
def entry(golden):
    """A real entry of a topic, by its number."""

    def make(number):
        body = decode_reply(golden(f"bookie_read_{number}"))[1].body
        found = decode_entry(body, digest_for(LedgerMetadataFormat.CRC32C), int.from_bytes(body[:8], "big"), number)
        return TopicEntry(found)

    return make


def test_the_frame_of_a_real_entry_is_the_stock_brokers(golden, entry):
    assert entry(0).frame(0, -1) == golden("broker_message")
    assert entry(2).frame(1, -1) == golden("broker_message_batch")
    assert entry(0).frame(1, -1, redelivery_count=1) == golden("broker_message_redelivered")


@pytest.mark.parametrize(
    "case", [{}, {"redelivery_count": 2}, {"unacked": 5}], ids=["first", "again", "part of a batch"]
)
def test_the_owners_own_metadata_is_for_those_that_take_it(entry, case):
    plain = entry(0)
    front = b"\x0e\x02\0\0\0\x02\x10\x07"
    one = TopicEntry(Entry(plain.ledger_id, plain.entry_id, plain.entry_id - 1, 0, front + plain.stored))
    for _ in range(2):
        hidden, exposed = one.frame(0, -1, **case), one.frame(0, -1, exposed=True, **case)
        assert hidden == plain.frame(0, -1, **case)
        assert exposed == (int.from_bytes(hidden[:4], "big") + len(front)).to_bytes(4, "big") + hidden[4:].replace(
            plain.stored, front + plain.stored
        )
