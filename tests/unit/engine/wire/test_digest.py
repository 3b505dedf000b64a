import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat as Metadata
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.errors import UnsupportedFormatError


def crc_bit_by_bit(data, polynomial):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def hmac_sha1_by_hand(key, message):
    block = key.ljust(64, b"\0")
    inner = hashlib.sha1(bytes(b ^ 0x36 for b in block) + message).digest()
    return hashlib.sha1(bytes(b ^ 0x5C for b in block) + inner).digest()


SIZES = {Metadata.CRC32: 8, Metadata.HMAC: 20, Metadata.CRC32C: 4, Metadata.DUMMY: 0}


def by_hand(kind, password, data):
    if kind == Metadata.CRC32C:
        return crc_bit_by_bit(data, 0x82F63B78).to_bytes(4, "big")
    if kind == Metadata.CRC32:
        return crc_bit_by_bit(data, 0xEDB88320).to_bytes(8, "big")
    if kind == Metadata.HMAC:
        return hmac_sha1_by_hand(hashlib.sha1(b"mac" + password).digest(), data)
    return b""


@pytest.mark.parametrize("kind", SIZES)
@given(st.binary(max_size=32), st.binary(max_size=60), st.binary(max_size=8))
def test_a_digest_is_what_its_definition_says(kind, header, payload, password):
    digest = digest_for(kind, password)
    assert digest.size == SIZES[kind]
    assert digest.compute(header, payload) == by_hand(kind, password, header + payload)


@pytest.mark.parametrize(
    ("golden_name", "kind"), [("bookie_read_0", Metadata.CRC32C), ("bookie_read_compacted", Metadata.CRC32)]
)
def test_the_digest_of_a_real_entry(golden, golden_name, kind):
    digest = digest_for(kind)
    body = decode_reply(golden(golden_name))[1].body
    assert digest.compute(body[:32], body[32 + digest.size :]) == body[32 : 32 + digest.size]


def test_an_unknown_digest_type_is_the_named_error():
    with pytest.raises(UnsupportedFormatError, match="digest type 9; known are CRC32, HMAC, CRC32C and DUMMY"):
        digest_for(9)
