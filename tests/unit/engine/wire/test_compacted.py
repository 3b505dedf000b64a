import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message import decode_metadata
from readonly_engine.wire.pulsar_pb2 import MessageIdData


def compacted(ledger_id, entry_id, payload):
    where = MessageIdData(ledger_id=ledger_id, entry_id=entry_id, partition=-1).SerializeToString()
    return len(where).to_bytes(4, "big") + where + len(payload).to_bytes(4, "big") + payload


def test_an_entry_of_a_real_compacted_ledger(golden):
    body = decode_reply(golden("bookie_read_compacted"))[1].body
    digest_bytes = 8  # compacted ledgers have CRC32 digests
    (_, entry_id), payload = decode_compacted(body[32 + digest_bytes :])
    assert entry_id >= 0
    assert decode_metadata(payload).producer_name


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.binary(max_size=100))
def test_what_was_written_is_read(ledger_id, entry_id, payload):
    assert decode_compacted(compacted(ledger_id, entry_id, payload)) == ((ledger_id, entry_id), payload)


@pytest.mark.parametrize("cut", range(15))
def test_an_entry_that_is_cut_off_is_the_named_error(cut):
    whole = compacted(3, 4, b"abc")
    with pytest.raises(MalformedFrameError):
        decode_compacted(whole[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_the_named_error(payload):
    with contextlib.suppress(MalformedFrameError):
        decode_compacted(payload)
