import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat as Metadata
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import LAST_ENTRY, Entry, decode_entry, decode_lac
from readonly_engine.wire.errors import DigestMismatchError

KINDS = [Metadata.CRC32, Metadata.HMAC, Metadata.CRC32C, Metadata.DUMMY]
CHECKED = [kind for kind in KINDS if kind != Metadata.DUMMY]
INT63 = st.integers(0, (1 << 63) - 1)


def made(digest, ledger_id, entry_id, lac, length, payload):
    header = struct.pack(">qqqq", ledger_id, entry_id, lac, length)
    return header + digest.compute(header, payload) + payload


def lac_body(digest, ledger_id, lac):
    header = struct.pack(">qq", ledger_id, lac)
    return header + digest.compute(header, b"")


@pytest.mark.parametrize("kind", KINDS)
@given(INT63, INT63, st.integers(-1, 1 << 40), INT63, st.binary(max_size=50))
def test_an_entry_is_taken_apart(kind, ledger_id, entry_id, lac, length, payload):
    digest = digest_for(kind, b"secret")
    body = made(digest, ledger_id, entry_id, lac, length, payload)
    assert decode_entry(body, digest, ledger_id, entry_id) == Entry(ledger_id, entry_id, lac, length, payload)
    assert decode_entry(body, digest, ledger_id).entry_id == entry_id


def test_real_entries(golden):
    digest = digest_for(Metadata.CRC32C)
    lengths = []
    for number in range(3):
        body = decode_reply(golden(f"bookie_read_{number}"))[1].body
        entry = decode_entry(body, digest, int.from_bytes(body[:8], "big"), number)
        assert entry.last_add_confirmed == number - 1
        lengths.append((entry.length, len(entry.payload)))
    totals = [total for total, _ in lengths]
    assert totals == [sum(size for _, size in lengths[: n + 1]) for n in range(3)]


def test_a_real_entry_of_a_compacted_ledger(golden):
    body = decode_reply(golden("bookie_read_compacted"))[1].body
    entry = decode_entry(body, digest_for(Metadata.CRC32), int.from_bytes(body[:8], "big"), 0)
    assert entry.payload.endswith(b"first")
    with pytest.raises(DigestMismatchError):
        decode_entry(body, digest_for(Metadata.CRC32C), entry.ledger_id, 0)


def test_the_explicit_lac_of_a_bookie(golden):
    reply = decode_reply(golden("bookie_read_lac"))[1]
    ledger_id = int.from_bytes(reply.body[:8], "big")
    assert decode_lac(reply.lac_body, digest_for(Metadata.CRC32C), ledger_id) == 2
    with pytest.raises(DigestMismatchError, match=f"asked for the LAC of ledger {ledger_id + 1}"):
        decode_lac(reply.lac_body, digest_for(Metadata.CRC32C), ledger_id + 1)


@pytest.mark.parametrize("kind", CHECKED)
def test_damage_of_any_single_bit_is_found(kind):
    digest = digest_for(kind, b"secret")
    lac = lac_body(digest, 300, 77)
    assert decode_lac(lac, digest, 300) == 77
    for decode, body in ((decode_entry, made(digest, 300, 5, 4, 1000, b"some payload")), (decode_lac, lac)):
        for bit in range(8 * len(body)):
            damaged = bytearray(body)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(DigestMismatchError):
                decode(bytes(damaged), digest, 300)


@pytest.mark.parametrize("kind", KINDS)
@given(st.binary(max_size=80))
def test_any_bytes_are_an_entry_or_the_named_error(kind, body):
    digest = digest_for(kind)
    for decode in (lambda: decode_entry(body, digest, 1, 1), lambda: decode_lac(body, digest, 1)):
        try:
            decode()
        except DigestMismatchError:
            continue
        assert kind == Metadata.DUMMY or len(body) >= 16 + digest.size


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_ends_in_its_header_is_the_named_error(kind):
    digest = digest_for(kind)
    body = made(digest, 1, 0, -1, 0, b"")
    assert decode_entry(body, digest, 1, 0).payload == b""
    with pytest.raises(DigestMismatchError, match="its header alone has"):
        decode_entry(body[:-1], digest, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_another_entry_than_the_one_asked_for_is_not_taken(kind):
    digest = digest_for(kind)
    body = made(digest, 1, 5, 4, 0, b"")
    assert decode_entry(body, digest, 1, LAST_ENTRY).entry_id == 5
    for ledger_id, entry_id in [(1, 6), (2, 5), (2, LAST_ENTRY)]:
        with pytest.raises(DigestMismatchError, match=f"asked for entry {ledger_id}:{entry_id}, got 1:5"):
            decode_entry(body, digest, ledger_id, entry_id)
