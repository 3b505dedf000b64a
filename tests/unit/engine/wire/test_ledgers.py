import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookkeeper_pb2 import BookieServiceInfoFormat, LedgerMetadataFormat
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError, UnsupportedFormatError, WireError
from readonly_engine.wire.ledgers import (
    MAX_NODE,
    LedgerMetadata,
    decode_bookie_address,
    decode_ledger_metadata,
    decode_managed_ledger,
)
from readonly_engine.wire.managed_ledger_pb2 import CompressedInfo
from readonly_engine.wire.message_pb2 import ZLIB
from readonly_engine.wire.varint import encode_varint

PREAMBLE = b"BookieMetadataFormatVersion\t"


def ledger_node(message, version=b"3"):
    encoded = message.SerializeToString()
    return PREAMBLE + version + b"\n" + encode_varint(len(encoded)) + encoded


def compressed(value, kind, data):
    header = CompressedInfo(compression_type=kind, uncompressed_size=len(value)).SerializeToString()
    return b"\x47\x78" + len(header).to_bytes(4, "big") + header + data


def test_a_real_open_ledger(golden):
    ledger = decode_ledger_metadata(golden("zk_ledger_open"))
    assert (ledger.closed, ledger.last_entry_id) == (False, -1)
    assert (ledger.write_quorum, ledger.ack_quorum) == (2, 2)
    assert (ledger.digest_type, ledger.password) == (LedgerMetadataFormat.CRC32C, b"")
    ((first, bookies),) = ledger.ensembles
    assert first == 0
    assert len(set(bookies)) == 2


def test_a_real_closed_ledger_and_a_compacted_one_that_has_another_digest(golden):
    ledger = decode_ledger_metadata(golden("zk_ledger_closed"))
    assert (ledger.closed, ledger.last_entry_id) == (True, 2)
    assert ledger.ensembles == decode_ledger_metadata(golden("zk_ledger_open")).ensembles
    assert decode_ledger_metadata(golden("zk_ledger_compacted")).digest_type == LedgerMetadataFormat.CRC32


def test_real_topics(golden):
    assert [ledger.entries for ledger in decode_managed_ledger(golden("zk_managed_ledger")).ledger_info] == [0]
    first, second = decode_managed_ledger(golden("zk_managed_ledger_two")).ledger_info
    assert first.entries == 3
    assert first.timestamp > 1_700_000_000_000
    assert (second.entries, second.timestamp) == (0, 0)
    assert second.ledger_id > first.ledger_id


def test_a_real_bookie(golden):
    host, port = decode_bookie_address(golden("zk_bookie"))
    assert f"{host}:{port}" in decode_ledger_metadata(golden("zk_ledger_open")).ensembles[0][1]


def test_a_bookie_that_does_not_say_where_it_listens():
    info = BookieServiceInfoFormat()
    info.endpoints.add(id="web", host="h", port=80, protocol="http")
    assert decode_bookie_address(info.SerializeToString()) is None
    info.endpoints.add(id="bookie", host="b", port=3181, protocol="bookie-rpc")
    assert decode_bookie_address(info.SerializeToString()) == ("b", 3181)


def test_a_codec_that_is_not_understood_is_the_named_error():
    with pytest.raises(UnsupportedFormatError, match="codec 9; known are NONE, LZ4, ZLIB, ZSTD, SNAPPY"):
        decode_managed_ledger(compressed(b"x", 9, b"x"))


def test_a_node_that_would_be_huge_is_refused_unread():
    header = CompressedInfo(compression_type=ZLIB, uncompressed_size=MAX_NODE + 1).SerializeToString()
    with pytest.raises(FrameTooLargeError, match="the limit is 67108864"):
        decode_managed_ledger(b"\x47\x78" + len(header).to_bytes(4, "big") + header + zlib.compress(b"x"))


@pytest.mark.parametrize(
    "value",
    [
        compressed(b"x", ZLIB, b"not zlib"),
        compressed(b"x", ZLIB, zlib.compress(b"x" * 100)[:-6]),
        b"\x47\x78\x00\x00\x00\x02\xff\xff",
        b"\x47\x78",
        b"\x0a\x05",
    ],
)
def test_a_damaged_topic_is_the_named_error(value):
    with pytest.raises(MalformedFrameError):
        decode_managed_ledger(value)


def made_ledger(**fields):
    message = LedgerMetadataFormat(quorum_size=2, ensemble_size=3, state=LedgerMetadataFormat.OPEN, **fields)
    message.segment.add(first_entry_id=0, ensemble_member=["a:1", "b:1", "c:1"])
    message.segment.add(first_entry_id=10, ensemble_member=["a:1", "d:1", "c:1"])
    return message


@given(st.integers(1, 6).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))), st.integers(0, 1 << 40))
def test_replicas_are_as_many_different_bookies_as_the_write_quorum(shape, entry_id):
    size, quorum = shape
    ledger = LedgerMetadata(((0, tuple(f"b{n}:1" for n in range(size))),), quorum, 1, False, -1, 3)
    replicas = ledger.replicas_of(entry_id)
    assert len(set(replicas)) == len(replicas) == quorum
    assert replicas[0] == f"b{entry_id % size}:1"


def test_the_last_entry_of_a_ledger_in_recovery_is_not_known_yet():
    message = made_ledger(last_entry_id=7)
    message.state = LedgerMetadataFormat.IN_RECOVERY
    ledger = decode_ledger_metadata(ledger_node(message))
    assert (ledger.closed, ledger.last_entry_id) == (False, -1)


def test_another_version_of_the_format_is_the_named_error():
    with pytest.raises(UnsupportedFormatError, match="versions 1 to 3 are understood"):
        decode_ledger_metadata(ledger_node(made_ledger(), b"4"))


VERSION_2 = b"""quorumSize: 2
ensembleSize: 3
length: 4096
lastEntryId: 11
state: CLOSED
segment {
  ensembleMember: "10.0.0.1:3181"
  ensembleMember: "quorumSize: 7"
  ensembleMember: "bookie-2.in \\"quotes\\":3181"
  firstEntryId: 0
}
digestType: CRC32
password: "pass\\000word"
ackQuorumSize: 1
ctime: 1700000000000
customMetadata {
  key: "application"
  value: "pulsar"
}
"""


def test_version_2_is_text():
    ledger = decode_ledger_metadata(PREAMBLE + b"2\n" + VERSION_2)
    assert ledger == LedgerMetadata(
        ensembles=((0, ("10.0.0.1:3181", "quorumSize: 7", 'bookie-2.in "quotes":3181')),),
        write_quorum=2,
        ack_quorum=1,
        closed=True,
        last_entry_id=11,
        digest_type=LedgerMetadataFormat.CRC32,
        password=b"pass\0word",
        state="CLOSED",
        length=4096,
    )


V1_OPEN = b"2\n3\n0\n0\ta:1\tb:1\tc:1\n7\ta:1\td:1\tc:1"


@pytest.mark.parametrize(
    ("end", "state", "last"),
    [(b"", "OPEN", -1), (b"\n", "OPEN", -1), (b"\n9\tCLOSED", "CLOSED", 9), (b"\n-102\tCLOSED", "IN_RECOVERY", -1)],
)
def test_version_1_is_lines(end, state, last):
    ledger = decode_ledger_metadata(PREAMBLE + b"1\n" + V1_OPEN + end)
    assert ledger.ensembles == ((0, ("a:1", "b:1", "c:1")), (7, ("a:1", "d:1", "c:1")))
    assert (ledger.write_quorum, ledger.ack_quorum) == (2, 2)
    assert (ledger.state, ledger.closed, ledger.last_entry_id) == (state, state == "CLOSED", last)


@pytest.mark.parametrize(
    "rest",
    [b"1\n", b"1\n2\n3\n", b"1\n2\n3\n0\n", b"1\nx\n3\n0\n0\ta:1", b"1\n2\n3\n0\n0", b"1\n2\n2\n0\n0\ta:1",
     b"1\n\xff\n", b"2\n", b"2\nquorumSize", b"2\n\xff", b'2\nsegment { ensembleMember: "a" }'],
)  # fmt: skip
def test_an_older_version_that_is_damaged_is_the_named_error(rest):
    with pytest.raises(MalformedFrameError):
        decode_ledger_metadata(PREAMBLE + rest)


@given(st.sampled_from([b"1\n" + V1_OPEN, b"2\n" + VERSION_2]), st.data())
def test_an_older_version_with_damaged_bytes_is_a_ledger_or_a_named_error(whole, data):
    value = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(2, len(value) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        ledger = decode_ledger_metadata(PREAMBLE + bytes(value))
        assert len(ledger.replicas_of(0)) == ledger.write_quorum


@pytest.mark.parametrize("quorum", [1, 3])
def test_a_quorum_is_one_bookie_or_up_to_the_whole_ensemble(quorum):
    message = made_ledger()
    message.quorum_size = quorum
    assert decode_ledger_metadata(ledger_node(message)).write_quorum == quorum


@pytest.mark.parametrize("quorum", [0, 4, 1 << 30])
def test_a_quorum_that_no_ensemble_can_have_is_the_named_error(quorum):
    message = made_ledger()
    message.quorum_size = quorum
    with pytest.raises(MalformedFrameError, match=f"write quorum {quorum}, and ensembles of 3"):
        decode_ledger_metadata(ledger_node(message))


def test_what_is_no_ledger_is_the_named_error(golden):
    with pytest.raises(MalformedFrameError, match="format version"):
        decode_ledger_metadata(golden("zk_managed_ledger"))
    with pytest.raises(MalformedFrameError, match="names no ensemble"):
        decode_ledger_metadata(ledger_node(LedgerMetadataFormat(quorum_size=2)))
    empty = LedgerMetadataFormat(quorum_size=2)
    empty.segment.add(first_entry_id=0)
    with pytest.raises(MalformedFrameError, match="ensemble"):
        decode_ledger_metadata(ledger_node(empty))
