"""Any bytes are what a decoder decodes, or its named error; so are real bytes that were damaged."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.batch import decode_stored_entry, unpack
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.bookie_auth import decode_auth_reply
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.cursor_records import decode_acked, decode_definitions, decode_mark_deletes
from readonly_engine.wire.cursors import decode_cursor, decode_cursor_entry
from readonly_engine.wire.errors import MalformedFrameError, WireError
from readonly_engine.wire.ledgers import decode_bookie_address, decode_ledger_metadata, decode_managed_ledger
from readonly_engine.wire.message import decode_stored
from readonly_engine.wire.pending_ack import decode_txn_acks
from readonly_engine.wire.schemas import decode_schema, decode_schema_locator

PREAMBLE = b"BookieMetadataFormatVersion\t"
BEGINS = {
    decode_ledger_metadata: (b"", PREAMBLE, PREAMBLE + b"3\n", PREAMBLE + b"3\n\x08"),
    decode_managed_ledger: (b"", b"\x47\x78", b"\x47\x78\0\0\0\x02\x08\x02"),
    decode_stored: (b"", b"\x0e\x01", b"\x0e\x02", b"\x0e\x02\0\0\0\0", b"\0\0\0\x04"),
}
"""What the bytes begin with, so that decoders do not give up at once."""


def decode_messages(value: bytes) -> object:
    return unpack(decode_stored_entry(value), limit=1 << 16)


def ledger_with_replicas(value: bytes) -> object:
    return decode_ledger_metadata(value).replicas_of(0)


@pytest.mark.parametrize(
    ("error", "decode"),
    [
        *((WireError, one) for one in (decode_messages, decode_cursor, decode_cursor_entry)),
        *((WireError, one) for one in (decode_managed_ledger, decode_ledger_metadata)),
        *(
            (MalformedFrameError, one)
            for one in (decode_reply, decode_auth_reply, decode_compacted, decode_bookie_address)
        ),
        *((MalformedFrameError, one) for one in (decode_acked, decode_definitions, decode_mark_deletes)),
        *((MalformedFrameError, one) for one in (decode_stored, decode_txn_acks, decode_schema, decode_schema_locator)),
    ],
)
@given(data=st.data())
def test_any_bytes(error, decode, data):
    value = data.draw(st.sampled_from(BEGINS.get(decode, (b"",)))) + data.draw(st.binary(max_size=100))
    with contextlib.suppress(error):
        decode(value)


@pytest.mark.parametrize(
    ("name", "decode"),
    [
        *((f"zk_ledger_{name}", ledger_with_replicas) for name in ("open", "closed")),
        *((f"zk_cursor_{name}", decode_cursor) for name in ("closed", "zstd")),
        *((f"cursor_entry{name}", decode_cursor_entry) for name in ("", "_long_arrays")),
    ],
)
@given(data=st.data())
def test_damaged_bytes(golden, name, decode, data):
    value = bytearray(golden(name))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        decode(bytes(value))
