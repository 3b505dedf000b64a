import pytest
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import Entry, decode_entry
from readonly_engine.wire.message_pb2 import MarkerType, MessageMetadata


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


@pytest.mark.parametrize("payload", [b"", b"not a message", b"\x0e\x01abcd\0\0\0\x04\xff\xff\xff\xff", bytes(4)])
def test_an_entry_that_is_no_message_is_for_nobody_as_at_the_owner(payload):
    strange = TopicEntry(Entry(4, 7, 6, 100, payload))
    assert (strange.payload, strange.messages, strange.marker, strange.txn) == (payload, 1, True, None)


def test_a_marker_is_known():
    encoded = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, marker_type=MarkerType.TXN_COMMIT
    ).SerializeToString()
    assert TopicEntry(Entry(4, 7, 6, 100, len(encoded).to_bytes(4, "big") + encoded)).marker
