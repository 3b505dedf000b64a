"""BATCH_READ against a real bookie's replies, and against constructed replies that no bookie would send."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine import native
from readonly_engine.wire.bookie_v2 import (
    REPLY_HEADER_BYTES,
    decode_batch,
    decode_batch_header,
    encode_batch_read,
    pure_decode_batch,
)
from readonly_engine.wire.bookkeeper_pb2 import EIO, ENOENTRY, ENOLEDGER, EOK, ETOOMANYREQUESTS
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat as Metadata
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import Entry, decode_entry
from readonly_engine.wire.errors import DigestMismatchError, MalformedFrameError

CRC32C = digest_for(Metadata.CRC32C)
TYPES = [Metadata.CRC32C, Metadata.CRC32, Metadata.HMAC, Metadata.DUMMY]
LEDGER = 12
DECODERS = pytest.mark.parametrize("decode", [decode_batch, pure_decode_batch])
"""The first is in C, if the extension is built."""


def entry_bytes(digest, entry_id, payload, ledger_id=LEDGER):
    header = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, len(payload))
    return header + digest.compute(header, payload) + payload


def reply(*entries, code=0, first=0, ledger_id=LEDGER, request_id=61):
    head = struct.pack(">iiqqq", 0x02070000, code, ledger_id, first, request_id)
    return head + b"".join(struct.pack(">i", len(entry)) + entry for entry in entries)


def test_a_request_is_what_the_protocol_says_to_the_byte():
    assert encode_batch_read(5, 12, 3, 100, 1 << 20).hex(" ") == (
        "00 00 00 28 "  # 40 bytes follow
        "02 07 00 00 "  # version 2, BATCH_READ, no flags: neither FENCING nor a master key
        "00 00 00 00 00 00 00 0c 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 05 "
        "00 00 00 64 00 00 00 00 00 10 00 00"
    )


@DECODERS
def test_a_real_reply_is_taken_apart(decode, golden):
    frame = golden("bookie_batch_all")
    assert decode_batch_header(frame) == (61, EOK, LEDGER, 0)
    entries, damage = decode(frame, CRC32C, LEDGER, 0)
    assert damage is None
    assert [entry.entry_id for entry in entries] == [0, 1, 2]
    texts = (b"first", b"second", b"third")
    assert all(entry.payload.endswith(text) for entry, text in zip(entries, texts, strict=True))
    # The same bytes as in a single read.
    size = int.from_bytes(frame[REPLY_HEADER_BYTES : REPLY_HEADER_BYTES + 4], "big")
    body = frame[REPLY_HEADER_BYTES + 4 : REPLY_HEADER_BYTES + 4 + size]
    assert entries[0] == decode_entry(body, CRC32C, LEDGER, 0)


@DECODERS
def test_a_real_reply_can_be_short(decode, golden):
    entries, damage = decode(golden("bookie_batch_short"), CRC32C, LEDGER, 0)
    assert [entry.entry_id for entry in entries] == [0]
    assert damage is None


@pytest.mark.parametrize(("name", "status"), [("beyond", ENOENTRY), ("no_ledger", ENOLEDGER)])
def test_real_errors_have_the_statuses_of_v3(golden, name, status):
    assert decode_batch_header(golden(f"bookie_batch_{name}")).status == status


@pytest.mark.parametrize(("code", "status"), [(106, ETOOMANYREQUESTS), (101, EIO), (99, EIO)])
def test_codes_become_statuses_and_an_unknown_one_an_io_error(code, status):
    assert decode_batch_header(reply(code=code)).status == status


@pytest.mark.parametrize("frame", [b"", b"\x02\x07\x00\x00", reply()[:-1], b"\x02\x02" + reply()[2:], b"\x0a" * 40])
def test_what_is_no_reply_to_a_batch_read_is_an_error(frame):
    with pytest.raises(MalformedFrameError):
        decode_batch_header(frame)


@DECODERS
@pytest.mark.parametrize("kind", TYPES)
@given(payloads=st.lists(st.binary(max_size=300), max_size=12), first=st.integers(0, 1 << 40))
def test_every_digest_type_there_and_back(decode, kind, payloads, first):
    digest = digest_for(kind)
    frame = reply(*(entry_bytes(digest, first + i, payload) for i, payload in enumerate(payloads)), first=first)
    entries, damage = decode(memoryview(bytearray(frame)), digest, LEDGER, first)
    assert damage is None
    assert [(entry.entry_id, entry.payload) for entry in entries] == list(enumerate(payloads, first))
    assert all(type(entry.payload) is bytes for entry in entries)


@pytest.mark.parametrize("kind", TYPES)
@given(sizes=st.lists(st.sampled_from([0, 1, 4059, 4060, 4061, 9000]), max_size=6))
def test_large_payloads_may_be_views_of_the_frame(kind, sizes):
    digest = digest_for(kind)
    payloads = [bytes([65 + index]) * size for index, size in enumerate(sizes)]
    frame = bytearray(reply(*(entry_bytes(digest, index, payload) for index, payload in enumerate(payloads))))
    entries, damage = decode_batch(frame, digest, LEDGER, 0, views=True)
    assert damage is None
    assert [entry.payload for entry in entries] == payloads
    for entry in entries:
        assert type(entry.payload) is bytes or entry.payload.obj is frame
    assert (
        native.load("readonly_engine.wire._entries") is None
        or kind != Metadata.CRC32C
        or not any(type(entry.payload) is bytes for entry in entries if len(entry.payload) > 4060)
    )


@DECODERS
@pytest.mark.parametrize("kind", [Metadata.CRC32C, Metadata.CRC32, Metadata.HMAC])
@given(data=st.data())
def test_a_flipped_bit_ends_the_batch_before_its_entry(decode, kind, data):
    digest = digest_for(kind)
    whole = [entry_bytes(digest, i, b"payload %d" % i) for i in range(5)]
    victim = data.draw(st.integers(0, 4))
    bit = data.draw(st.integers(0, len(whole[victim]) * 8 - 1))
    damaged = bytearray(whole[victim])
    damaged[bit // 8] ^= 1 << bit % 8
    whole[victim] = bytes(damaged)
    entries, damage = decode(reply(*whole), digest, LEDGER, 0)
    assert [entry.entry_id for entry in entries] == list(range(victim))
    assert isinstance(damage, DigestMismatchError)


@DECODERS
@pytest.mark.parametrize(
    "wrong",
    [
        entry_bytes(CRC32C, 2, b"x"),
        entry_bytes(CRC32C, 0, b"x"),
        entry_bytes(CRC32C, 1, b"x", LEDGER + 1),
        b"",
        b"short",
    ],
)
def test_entries_follow_each_other_in_the_ledger_that_was_asked_for(decode, wrong):
    entries, damage = decode(reply(entry_bytes(CRC32C, 0, b"0"), wrong), CRC32C, LEDGER, 0)
    assert [entry.entry_id for entry in entries] == [0]
    assert damage is not None


@DECODERS
@pytest.mark.parametrize("tail", [b"\x00", b"\x00\x00\x00\x01", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xffabc"])
def test_a_reply_that_ends_within_an_entry_is_an_error(decode, tail):
    with pytest.raises(MalformedFrameError):
        decode(reply(entry_bytes(CRC32C, 0, b"0")) + tail, CRC32C, LEDGER, 0)


@DECODERS
@given(st.binary(max_size=200), st.sampled_from(TYPES))
def test_no_bytes_at_all_break_the_decoder(decode, rest, kind):
    with contextlib.suppress(MalformedFrameError):
        decode(reply() + rest, digest_for(kind), LEDGER, 0)
    with contextlib.suppress(MalformedFrameError):
        decode_batch_header(rest)


@given(st.data())
def test_both_decoders_say_the_same_of_any_frame(data):
    payloads = data.draw(st.lists(st.binary(max_size=30), max_size=5))
    frame = bytearray(reply(*(entry_bytes(CRC32C, i, payload) for i, payload in enumerate(payloads))))
    for _ in range(data.draw(st.sampled_from([0, 0, 1, 2]))):
        frame[data.draw(st.integers(REPLY_HEADER_BYTES, len(frame) - 1) if payloads else st.just(0))] ^= data.draw(
            st.sampled_from([1, 0x80, 0xFF])
        )
    whole = bytes(frame[: data.draw(st.sampled_from([len(frame)] * 3 + list(range(REPLY_HEADER_BYTES, len(frame)))))])
    assert outcome(decode_batch, whole) == outcome(pure_decode_batch, whole)


def outcome(decode, frame):
    try:
        entries, damage = decode(frame, CRC32C, LEDGER, 0)
    except MalformedFrameError as error:
        return str(error)
    assert all(type(entry) is Entry for entry in entries)
    return entries, str(damage)


@pytest.mark.parametrize("size", [0, 7, 8, 300, 1007, 1008, 1009, 5000, 12_287, 12_288, 12_289, 70_000])
def test_entries_of_any_size_are_verified(size):
    """In C, checksums are computed in strips of several lengths."""
    payload = bytes(i * 7 % 251 for i in range(size))
    for place in (None, 0, size // 2, size - 1):
        body = bytearray(entry_bytes(CRC32C, 0, payload))
        if place is not None and size:
            body[36 + place] ^= 4
        entries, damage = decode_batch(reply(bytes(body)), CRC32C, LEDGER, 0)
        assert (len(entries), damage is None) == ((0, False) if place is not None and size else (1, True))
