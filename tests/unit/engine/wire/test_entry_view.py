"""Entries are parsed and framed equally in C and in Python, also for bytes that no broker would send."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readonly_engine import native
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.commands import NO_EPOCH, encode_message_frame
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.entry_view import (
    PureEntryView,
    pure_encode_pieces,
    pure_encode_views,
    pure_summarize,
    pure_views_of_slots,
)
from readonly_engine.wire.message import parse_stored
from readonly_engine.wire.message_pb2 import BrokerEntryMetadata, MarkerType, MessageMetadata
from readonly_engine.wire.position import Position
from readonly_engine.wire.sticky_key import NO_KEY, key_hash, sticky_key

from tests.support.examples import examples
from tests.support.stored_message import stored_message as stored

IN_C = native.load("readonly_engine.wire._entries")
NEEDS_C = pytest.mark.skipif(IN_C is None, reason="not built, or PULSAR_READONLY_PURE is set")
PRODUCED = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}
TOLD = (
    "ledger_id",
    "entry_id",
    "position",
    "stored",
    "payload",
    "prefix",
    "size",
    "sticky_hash",
    "messages",
    "marker",
    "deliver_at",
    "txn",
    "aborts",
    "chunk",
)


class InPython:
    EntryView = PureEntryView
    encode_pieces = staticmethod(pure_encode_pieces)
    encode_views = staticmethod(pure_encode_views)
    summarize = staticmethod(pure_summarize)
    views_of_slots = staticmethod(pure_views_of_slots)


BOTH = pytest.mark.parametrize("way", [InPython, pytest.param(IN_C, marks=NEEDS_C)], ids=["python", "c"])


def entry(payload, ledger_id=7, entry_id=3):
    return Entry(ledger_id, entry_id, entry_id - 1, len(payload), payload)


def told(view):
    return {name: getattr(view, name) for name in TOLD}


LATER_FIELDS = {
    "4.2: schema_id = 32": b"\x82\x02\x03abc",
    "5.0: entry buckets, 40 and 41, as numbers": b"\xc0\x02\x05\xc8\x02\x87\x01",
    "40 and 41 as bytes": b"\xc2\x02\x02\x01\x02\xca\x02\x00",
}
"""Fields of MessageMetadata that Pulsar 4.0 does not have."""


@BOTH
@pytest.mark.parametrize("later", LATER_FIELDS.values(), ids=list(LATER_FIELDS))
def test_fields_of_later_releases_change_nothing_and_are_delivered(way, later):
    known = MessageMetadata(**PRODUCED, num_messages_in_batch=3, partition_key="k", deliver_at_time=5)
    extended = MessageMetadata.FromString(known.SerializeToString() + later)
    plain, view = (way.EntryView(entry(stored(metadata))) for metadata in (known, extended))
    differing = {"stored", "payload", "size"}
    assert {k: v for k, v in told(view).items() if k not in differing} == {
        k: v for k, v in told(plain).items() if k not in differing
    }
    assert later in view.payload


@BOTH
def test_a_real_entry(way, golden):
    payload = decode_reply(golden("bookie_read_2"))[1].body[36:]
    view = way.EntryView(entry(payload))
    assert (view.position, view.messages, view.marker, view.txn, view.chunk) == (Position(7, 3), 3, False, None, None)
    assert (view.payload, view.prefix, view.size) == (payload, b"", len(payload))
    assert type(view.position) is Position
    assert view.position is view.position


@BOTH
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"num_messages_in_batch": 12},
        {"num_messages_in_batch": -3},
        {"deliver_at_time": 1 << 60},
        {"marker_type": MarkerType.TXN_ABORT, "txnid_most_bits": 1, "txnid_least_bits": -2},
        {"marker_type": MarkerType.TXN_COMMIT, "txnid_most_bits": 1, "txnid_least_bits": 2},
        {"txnid_most_bits": 3},
        {"uuid": "large", "chunk_id": 2, "num_chunks_from_msg": 5},
        {"encryption_keys": [{"key": "k", "value": b"v", "metadata": [{"key": "a", "value": "b"}]}]},
        {"properties": [{"key": "a", "value": "b" * 300}, {"key": "", "value": ""}]},
    ],
)
@pytest.mark.parametrize("broker", [None, BrokerEntryMetadata(), BrokerEntryMetadata(broker_timestamp=9, index=4)])
def test_what_a_dispatcher_needs_to_know(way, fields, broker):
    payload = stored(MessageMetadata(**PRODUCED, **fields), broker=broker)
    view = way.EntryView(entry(payload))
    expected = parse_stored(payload)
    assert tuple(getattr(view, name) for name in expected._fields) == tuple(expected)
    assert view.prefix + view.payload == view.stored == payload


@BOTH
@pytest.mark.parametrize("missing", PRODUCED)
def test_what_no_producer_wrote_is_for_nobody(way, missing):
    fields = {name: value for name, value in PRODUCED.items() if name != missing}
    for payload in (b"", b"\x0e", b"\x0e\x02\xff\xff\xff\xff", stored(MessageMetadata(**fields))):
        view = way.EntryView(entry(payload))
        assert (view.payload, view.messages, view.marker, view.txn) == (payload, 1, True, None)


@NEEDS_C
@given(st.data())
@settings(max_examples=examples(400))
def test_c_tells_of_any_bytes_what_python_tells(data):
    metadata = MessageMetadata(**PRODUCED).SerializeToString()
    fields = data.draw(
        st.lists(
            st.one_of(
                st.binary(max_size=6),
                # A field of any number and type, with few bytes, and the required fields of a message.
                st.builds(
                    lambda number, kind, rest: varint(number << 3 | kind) + rest,
                    st.integers(0, 40),
                    st.integers(0, 7),
                    st.one_of(st.binary(max_size=12), st.binary(max_size=9).map(lambda b: bytes([len(b)]) + b)),
                ),
                st.sampled_from([metadata[:3], metadata[3:5], metadata[5:]]),
            ),
            max_size=6,
        )
    )
    head = b"".join([*([metadata] if data.draw(st.booleans()) else []), *fields])
    size = data.draw(st.sampled_from([len(head)] * 8 + [len(head) + 1, 0xFFFFFFFF, 0x80000000]))
    payload = size.to_bytes(4, "big") + head + data.draw(st.sampled_from([b"", b"body"]))
    payload = (
        data.draw(st.sampled_from([b"", b"\x0e\x01....", b"\x0e\x02\0\0\0\x02..\x0e\x01....", b"\x0e\x02"])) + payload
    )
    payload = payload[: data.draw(st.sampled_from([len(payload)] * 4 + list(range(len(payload)))))]
    assert told(IN_C.EntryView(entry(payload))) == told(PureEntryView(entry(payload)))


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


@BOTH
@given(data=st.data())
def test_frames_are_those_of_single_entries_one_after_another(way, data):
    ids = st.one_of(st.integers(0, 1 << 62), st.sampled_from([0, 127, 128, 16383, 16384, (1 << 63) - 1]))
    payloads = data.draw(st.lists(st.binary(max_size=40), max_size=4))
    fronts = [stored(MessageMetadata(**PRODUCED), body, broker=BrokerEntryMetadata(index=1)) for body in payloads]
    ledger_id, first = data.draw(ids), data.draw(st.integers(0, 1 << 40))
    views = [way.EntryView(entry(payload, ledger_id, first + i)) for i, payload in enumerate(payloads + fronts)]
    consumer, partition = data.draw(st.integers(0, (1 << 64) - 1)), data.draw(st.integers(-1, 300))
    epoch, redelivered = data.draw(st.sampled_from([NO_EPOCH, 0, 5, 1 << 40])), data.draw(st.integers(0, 300))
    assert way.encode_views(views, consumer, partition, epoch, redelivered) == b"".join(
        encode_message_frame(consumer, ledger_id, view.entry_id, partition, view.payload, redelivered, epoch)
        for view in views
    )
    assert way.encode_views(views, consumer, partition, epoch, redelivered, True) == b"".join(
        encode_message_frame(consumer, ledger_id, view.entry_id, partition, view.stored, redelivered, epoch)
        for view in views
    )
    for exposed in (False, True):
        pieces = way.encode_pieces(views, consumer, partition, epoch, exposed)
        assert b"".join(pieces) == way.encode_views(views, consumer, partition, epoch, 0, exposed)


@NEEDS_C
def test_pieces_are_the_stored_payloads_without_a_copy():
    payload = stored(MessageMetadata(**PRODUCED), bytes(100))
    behind = stored(MessageMetadata(**PRODUCED), bytes(100), broker=BrokerEntryMetadata(index=1))
    views = [IN_C.EntryView(entry(one)) for one in (payload, behind)]
    _, first, _, second = IN_C.encode_pieces(views, 0, -1, -1)
    assert first is payload
    assert second.obj is behind
    assert IN_C.encode_pieces(views, 0, -1, -1, True)[3] is behind


@BOTH
def test_a_summary(way):
    plain = [way.EntryView(entry(stored(MessageMetadata(**PRODUCED, num_messages_in_batch=n)))) for n in (2, 5)]
    size = sum(view.size for view in plain)
    assert way.summarize(plain) == (7, size, True, True)
    assert way.summarize([]) == (0, 0, True, True)
    marker = way.EntryView(entry(stored(MessageMetadata(**PRODUCED, marker_type=MarkerType.TXN_COMMIT))))
    assert way.summarize([*plain, marker]) == (8, size + marker.size, False, True)
    of_txn = way.EntryView(entry(stored(MessageMetadata(**PRODUCED, txnid_most_bits=1, txnid_least_bits=2))))
    assert not way.summarize([of_txn])[2]
    of_txn.txn = None  # as for a known commit
    assert way.summarize([of_txn])[2]
    delayed = way.EntryView(entry(stored(MessageMetadata(**PRODUCED, deliver_at_time=5))))
    assert way.summarize([plain[0], delayed])[2:] == (True, False)
    part = MessageMetadata(**PRODUCED, uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=9)
    assert way.summarize([way.EntryView(entry(stored(part))), plain[0]])[2:] == (True, False)


KEYS = (
    {"partition_key": ""},
    {"partition_key": "k"},
    {"partition_key": "\u00e9tage"},
    {"partition_key": "a2V5", "partition_key_b64_encoded": True},
    {"partition_key": "no base64", "partition_key_b64_encoded": True},
    {"partition_key": "a2V5", "partition_key_b64_encoded": False},
    {"ordering_key": b"\xff\x00" * 9, "partition_key": "k"},
    {"ordering_key": b""},
    {"producer_name": "n" * 199},
    {"producer_name": "n" * 201},
    {"sequence_id": (1 << 63) - 1},
    {"sequence_id": -(1 << 63)},
    {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 9, "partition_key": "k"},
)


@BOTH
def test_the_key_of_each_form_has_its_hash_and_its_slot(way):
    forms = [MessageMetadata(**(PRODUCED | fields)) for fields in KEYS]
    views = [
        way.EntryView(entry(stored(metadata, broker=broker), 7, number))
        for broker in (None, BrokerEntryMetadata(index=1))
        for number, metadata in enumerate(forms)
    ]
    hashes = [key_hash(sticky_key(metadata)) for metadata in forms] * 2
    assert [view.sticky_hash for view in views] == hashes
    strange = way.EntryView(entry(b"strange"))
    assert strange.sticky_hash == key_hash(NO_KEY)
    slots = bytes([0b10010110] * 8192)
    held = [view for view, hash_ in zip(views, hashes, strict=True) if (hash_ % 65535 + 1) % 8 in {1, 2, 4, 7}]
    assert 0 < len(held) < len(views)
    assert way.views_of_slots(tuple(views), slots) == held
    held = [view for view, hash_ in zip(views, hashes, strict=True) if (hash_ % 65536 or 1) % 8 in {1, 2, 4, 7}]
    assert way.views_of_slots(views, slots, True) == held
    assert way.views_of_slots([], slots) == way.views_of_slots(views, bytes(8192)) == []


@BOTH
def test_a_kind_of_its_own_can_be_made_of_it(way):
    class Mine(way.EntryView):
        __slots__ = ()

    one = Mine(entry(stored(MessageMetadata(**PRODUCED))))
    assert type(one) is Mine
    assert one._frames is None
    one._frames = {}
    assert one._frames == {}
    with pytest.raises(AttributeError):
        one.strange = 1


@NEEDS_C
def test_in_c_the_collector_of_garbage_need_not_look_at_it():
    class Mine(IN_C.EntryView):
        __slots__ = ()

    assert not gc.is_tracked(Mine(entry(b"")))


@NEEDS_C
@pytest.mark.parametrize(
    "wrong", [(), (1,), (entry(b""), 1), (entry(b"")[:4],), (Entry(1, 2, 1, 0, "text"),), (Entry("1", 2, 1, 0, b""),)]
)
def test_c_takes_nothing_but_entries(wrong):
    with pytest.raises(TypeError):
        IN_C.EntryView(*wrong)
    with pytest.raises(TypeError):
        IN_C.encode_views([object()], 0, -1, -1)
    with pytest.raises(TypeError):
        IN_C.encode_pieces([object()], 0, -1, -1)
    with pytest.raises(TypeError):
        IN_C.summarize(5)
    with pytest.raises(TypeError):
        IN_C.views_of_slots([object()], bytes(8))
    with pytest.raises(ValueError, match="slots"):
        IN_C.views_of_slots([], b"")


@NEEDS_C
def test_c_leaves_nothing_behind():
    """Each round creates and drops a megabyte, so a leak would show."""
    payloads = [
        stored(MessageMetadata(**PRODUCED, txnid_most_bits=1, txnid_least_bits=2), bytes(1000)),
        stored(MessageMetadata(**PRODUCED), bytes(1000), broker=BrokerEntryMetadata(index=1)),
        b"strange" * 100,
    ]

    def work():
        views = [IN_C.EntryView(entry(payload, 7, i)) for i, payload in enumerate(payloads * 400)]
        for view in views:
            assert view.position
            assert told(view)
        IN_C.encode_views(views, 0, -1, -1)
        IN_C.encode_pieces(views, 0, -1, -1)
        IN_C.summarize(views)

    for _ in range(5):
        work()
    before = resident()
    for _ in range(60):
        work()
    assert resident() - before < 20 << 20


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
