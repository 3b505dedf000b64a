"""Indexes, blocks and MapFiles: of a real broker, of a writer in the tests for any entries, and damaged ones."""

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire import offload
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.errors import DigestMismatchError, FrameTooLargeError, MalformedFrameError, WireError
from readonly_engine.wire.managed_ledger_pb2 import LedgerInfo
from readonly_engine.wire.message import decode_metadata
from readonly_engine.wire.offload import (
    INDEX_MAGIC,
    INDEX_V2_MAGIC,
    MAX_INDEX_BYTES,
    decode_index,
    scan_entries,
    verify_payload,
)
from readonly_engine.wire.sequence_file import (
    check_ledger_data,
    decode_map_index,
    decode_sequence_header,
    decode_vint,
    scan_block,
    scan_records,
)

PADDING = bytes.fromhex("fedcdead")
SYNC = bytes(range(16))
PAYLOADS = st.lists(st.binary(max_size=60), min_size=1, max_size=40)


def write_object(payloads: list[bytes], per_block: int) -> tuple[bytes, list[tuple[int, int]]]:
    """A data object, and its blocks as (first entry, offset)."""
    data = b""
    blocks = []
    for first in range(0, len(payloads), per_block):
        body = b"".join(
            struct.pack(">iq", len(payload), entry_id) + payload
            for entry_id, payload in enumerate(payloads[first : first + per_block], first)
        )
        body += PADDING * 3
        blocks.append((first, len(data)))
        data += struct.pack(">Iqqq", 0xFBDBABCB, 128, 128 + len(body), first).ljust(128, b"\0") + body
    return data, blocks


def write_index(blocks: list[tuple[int, int]], length: int, last: int, streaming: bool = False) -> bytes:
    entries = b"".join(struct.pack(">qiq", first, number, offset) for number, (first, offset) in enumerate(blocks, 1))
    if streaming:
        metadata = LedgerInfo(ledger_id=7, entries=last + 1).SerializeToString()
        body = struct.pack(">qii", 7, len(blocks), len(metadata)) + metadata + entries
    else:
        metadata = LedgerMetadataFormat(last_entry_id=last).SerializeToString()
        body = struct.pack(">ii", len(blocks), len(metadata)) + metadata + entries
    magic = INDEX_V2_MAGIC if streaming else INDEX_MAGIC
    return struct.pack(">Iiqq", magic, 24 + len(body), length, 128) + body


def test_an_index_and_a_block_of_a_real_broker(golden) -> None:
    index = decode_index(golden("offload_index"), 232)
    assert index.last_entry_id == 4
    data = golden("offload_block")
    assert [(block.first_entry, block.start, block.end) for block in index.blocks] == [(0, 128, len(data))]
    scan = scan_entries(data, 128, 0, 0, 4)
    assert [entry_id for entry_id, _ in scan.found] == [0, 1, 2, 3, 4]
    for entry_id, payload in scan.found:
        verify_payload(payload, 232, entry_id)
        assert decode_metadata(payload).sequence_id == entry_id
        assert payload.endswith(b"m%d" % entry_id * entry_id)
        with pytest.raises(DigestMismatchError, match=f"offloaded entry 232:{entry_id}"):
            verify_payload(payload[:-1] + bytes([payload[-1] ^ 1]), 232, entry_id)


def test_a_map_file_of_a_real_broker(golden) -> None:
    data = golden("offload_mapfile_data")
    header = decode_sequence_header(data)
    check_ledger_data(header)
    assert decode_map_index(golden("offload_mapfile_index")) == [(-1, header.end)]
    scan = scan_block(data, header.end, header)
    assert [key for key, _ in scan.found] == [-1, 0, 1, 2, 3, 4]
    assert LedgerMetadataFormat.FromString(scan.found[0][1]).last_entry_id == 4
    assert [payload.endswith(b"m%d" % key * key) for key, payload in scan.found[1:]] == [True] * 5
    assert scan.position == len(data)


@given(PAYLOADS, st.integers(1, 50), st.booleans(), st.data())
def test_any_entries_come_back_from_any_place(payloads, per_block, streaming, draw) -> None:
    data, blocks = write_object(payloads, per_block)
    index = decode_index(write_index(blocks, len(data), len(payloads) - 1, streaming), 7)
    assert index.last_entry_id == len(payloads) - 1
    assert len(index.blocks) == len(blocks)
    first = draw.draw(st.integers(0, len(payloads) - 1))
    block = index.blocks[index.block_of(first)]
    scan = scan_entries(data[block.start : block.end], 0, block.first_entry, first, len(payloads) - 1)
    end = min(block.first_entry + per_block, len(payloads))
    assert scan.found == list(enumerate(payloads))[first:end]
    assert scan.ended or end == len(payloads)


@given(PAYLOADS, st.data())
def test_a_scan_that_is_cut_says_what_it_needs(payloads, draw) -> None:
    data, _ = write_object(payloads, len(payloads))
    data = data[128:]
    cut = draw.draw(st.integers(0, len(data)))
    scan = scan_entries(data[:cut], 0, 0, 0, len(payloads) - 1)
    assert scan.found == list(enumerate(payloads))[: scan.next_entry]
    if scan.needed:
        rest = scan_entries(data[scan.position :], 0, scan.next_entry, 0, len(payloads) - 1)
        assert scan.found + rest.found == list(enumerate(payloads))


def test_a_ledger_that_a_streaming_index_does_not_know_is_an_error() -> None:
    with pytest.raises(WireError, match="an index without ledger 8"):
        decode_index(write_index([(0, 0)], 500, 3, streaming=True), 8)


def test_an_index_above_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameTooLargeError, match=str(MAX_INDEX_BYTES)):
        decode_index(struct.pack(">Ii", INDEX_MAGIC, MAX_INDEX_BYTES + 1), 1)


def test_another_entry_than_the_index_says_is_an_error() -> None:
    with pytest.raises(MalformedFrameError, match="has 5 where entry 4 must be"):
        scan_entries(struct.pack(">iq", 0, 5), 0, 4, 4, 4)


@given(st.binary(max_size=300), st.integers(0, 200), st.data())
def test_damage_is_a_wire_error(noise, at, draw) -> None:
    data, blocks = write_object([b"a" * 30] * 5, 2)
    for good in (write_index(blocks, len(data), 4), write_index(blocks, len(data), 4, streaming=True)):
        for bad in (noise, good[:4] + noise, good[:at] + noise + good[at + len(noise) :], good[:at]):
            with contextlib.suppress(WireError):
                assert decode_index(bad, 7).blocks
    with contextlib.suppress(WireError):
        scan_entries(noise, 0, 0, 0, draw.draw(st.integers(0, 100)))


@pytest.mark.parametrize("views", [True, False])
def test_large_payloads_of_a_view_are_views_on_demand(views, monkeypatch) -> None:
    small, large = b"a" * 4095, b"b" * 4096
    data, _ = write_object([small, large], 2)
    found = scan_entries(memoryview(data)[128:], 0, 0, 0, 1, views=views).found
    assert found == [(0, small), (1, large)]
    assert type(found[0][1]) is bytes
    assert type(found[1][1]) is (memoryview if views and offload._native is not None else bytes)
    monkeypatch.setattr(offload, "_native", None)
    assert [type(payload) for _, payload in scan_entries(memoryview(data)[128:], 0, 0, 0, 1, views=True).found] == [
        bytes
    ] * 2


@pytest.mark.parametrize("kind", [bytes, memoryview])
@pytest.mark.parametrize("pure", [True, False])
def test_a_payload_is_verified_in_place(golden, kind, pure, monkeypatch) -> None:
    if pure:
        monkeypatch.setattr(offload, "_native", None)
    for _, payload in scan_entries(golden("offload_block"), 128, 0, 0, 4).found:
        verify_payload(kind(payload), 232, 0)
        for broker in (b"", b"\x0e\x02" + (3).to_bytes(4, "big") + b"abc"):
            verify_payload(kind(broker + payload), 232, 0)
            with pytest.raises(DigestMismatchError):
                verify_payload(kind(broker + payload[:-1] + b"?"), 232, 0)
    verify_payload(kind(b"\x0e\x03 of another magic"), 232, 0)
    with pytest.raises(DigestMismatchError):
        verify_payload(kind(b"\x0e\x01"), 232, 0)  # it ends within the checksum


# MapFiles


def vint(value: int) -> bytes:
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([(-112 - size) & 0xFF]) + value.to_bytes(size, "big")


def text(value: str) -> bytes:
    return vint(len(value)) + value.encode()


def write_header(codec: bool, blocks: bool) -> bytes:
    classes = text("org.apache.hadoop.io.LongWritable") + text("org.apache.hadoop.io.BytesWritable")
    named = text("org.apache.hadoop.io.compress.DefaultCodec") if codec else b""
    return b"SEQ\x06" + classes + bytes([codec, blocks]) + named + bytes(4) + SYNC


def write_records(payloads: list[bytes], codec: bool) -> bytes:
    data = write_header(codec, blocks=False)
    for key, payload in enumerate(payloads):
        value = struct.pack(">i", len(payload)) + payload
        value = zlib.compress(value) if codec else value
        if key % 3 == 2:
            data += struct.pack(">i", -1) + SYNC
        data += struct.pack(">iiq", 8 + len(value), 8, key) + value
    return data


def write_block(payloads: list[bytes], first: int) -> bytes:
    values = [struct.pack(">i", len(payload)) + payload for payload in payloads]
    buffers = (
        vint(8) * len(payloads),
        b"".join(struct.pack(">q", key) for key in range(first, first + len(payloads))),
        b"".join(vint(len(value)) for value in values),
        b"".join(values),
    )
    packed = [zlib.compress(buffer) for buffer in buffers]
    body = vint(len(payloads)) + b"".join(vint(len(buffer)) + buffer for buffer in packed)
    return struct.pack(">i", -1) + SYNC + body


@given(PAYLOADS, st.booleans(), st.data())
def test_records_come_back_however_they_are_cut(payloads, codec, draw) -> None:
    data = write_records(payloads, codec)
    header = decode_sequence_header(data)
    cut = draw.draw(st.integers(header.end, len(data)))
    last = len(payloads) - 1
    first = draw.draw(st.integers(0, last))
    scan = scan_records(data[:cut], header.end, header, first, last)
    found = scan.found
    if scan.needed:
        found = found + scan_records(data, scan.position, header, first, last).found
    assert found == list(enumerate(payloads))[first:]


@given(PAYLOADS, st.data())
def test_blocks_come_back_once_they_are_whole(payloads, draw) -> None:
    data = write_header(codec=True, blocks=True)
    start = len(data)
    data += write_block(payloads, 3)
    header = decode_sequence_header(data)
    cut = draw.draw(st.integers(start, len(data)))
    scan = scan_block(data[:cut], start, header)
    while scan.needed:
        assert cut < start + scan.needed
        cut = start + scan.needed
        scan = scan_block(data[:cut], start, header)
    assert scan.found == list(enumerate(payloads, 3))
    assert scan.position == len(data)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_as_hadoop_writes_them(value) -> None:
    if value >= -112 and value <= 127:
        data = bytes([value & 0xFF])
    else:
        rest = value if value >= 0 else ~value
        size = max((rest.bit_length() + 7) // 8, 1)
        data = bytes([((-112 if value >= 0 else -120) - size) & 0xFF]) + rest.to_bytes(size, "big")
    assert decode_vint(data, 0) == (value, len(data))


@given(st.binary(max_size=300), st.integers(0, 250))
def test_a_damaged_map_file_is_a_wire_error(noise, at) -> None:
    for good in (write_records([b"abc"] * 4, codec=True), write_header(True, True) + write_block([b"abc"] * 4, 0)):
        for bad in (noise, good[:at] + noise + good[at + len(noise) :]):
            with contextlib.suppress(WireError):
                decode_map_index(bad)
            try:
                header = decode_sequence_header(bad)
                check_ledger_data(header)
                (scan_block if header.blocks else lambda *of: scan_records(*of, 0, 3))(bad, header.end, header)
            except WireError:
                pass
