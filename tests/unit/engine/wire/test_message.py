import google_crc32c
import pytest
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message import decode_stored
from readonly_engine.wire.message_pb2 import MarkerType, MessageMetadata

from tests.support.stored_message import stored_message as stored

PRODUCED = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}
"""The required fields of a message."""


@pytest.mark.parametrize(("entry_id", "messages"), [(0, 1), (1, 1), (2, 3)])
def test_entries_of_a_real_topic(golden, entry_id, messages):
    payload = decode_reply(golden(f"bookie_read_{entry_id}"))[1].body[36:]
    found = decode_stored(payload)
    assert (found.payload, found.messages, found.marker) == (payload, messages, False)
    assert (found.in_transaction, found.deliver_at) == (False, 0)
    assert google_crc32c.value(payload[6:]) == int.from_bytes(payload[2:6], "big"), (
        "the checksum is where we think it is"
    )


def test_a_message_of_a_transaction_is_known_and_its_marker_is_a_marker():
    ids = {"txnid_least_bits": 0, "txnid_most_bits": 0}
    found = decode_stored(stored(MessageMetadata(**PRODUCED, **ids)))
    assert (found.in_transaction, found.marker) == (True, False)
    found = decode_stored(stored(MessageMetadata(**PRODUCED, marker_type=MarkerType.TXN_COMMIT, **ids)))
    assert (found.in_transaction, found.marker) == (False, True)
    assert (found.txn, found.aborts) == ((0, 0), False)
    found = decode_stored(stored(MessageMetadata(**PRODUCED, marker_type=MarkerType.TXN_ABORT, **ids)))
    assert (found.txn, found.aborts) == ((0, 0), True)
    half = decode_stored(stored(MessageMetadata(**PRODUCED, txnid_most_bits=3)))
    assert (half.txn, half.in_transaction) == (None, False)


@pytest.mark.parametrize(
    "payload", [b"", b"\x00\x00\x00", b"\x0e\x01", b"\x0e\x01abcd\x00\x00\x00\x09short", b"\x0e\x02\xff\xff"]
)
def test_an_entry_without_metadata_is_the_named_error(payload):
    with pytest.raises(MalformedFrameError):
        decode_stored(payload)


@pytest.mark.parametrize("missing", list(PRODUCED))
def test_metadata_without_what_every_producer_writes_is_the_named_error(missing):
    fields = {name: value for name, value in PRODUCED.items() if name != missing}
    with pytest.raises(MalformedFrameError, match="without its required fields"):
        decode_stored(stored(MessageMetadata(**fields)))


def test_metadata_that_is_cut_off_is_the_named_error():
    with pytest.raises(MalformedFrameError, match="longer than the entry"):
        decode_stored(stored(MessageMetadata(producer_name="producer"), b"")[:-1])
