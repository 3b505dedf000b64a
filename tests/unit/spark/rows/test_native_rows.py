"""The context in C does what the one in Python does, with whatever a network and a disk can bring."""

import base64
import binascii
import contextlib
import gc
import resource

import lz4.block
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import (
    LZ4,
    BrokerEntryMetadata,
    EncryptionKeys,
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
)
from readonly_spark.rows.builder import Projection, RowBatch
from readonly_spark.rows.chunks import ChunkedMessages, EarlierChunks
from readonly_spark.rows.columns import NAMES, MessageColumns
from readonly_spark.rows.decode import DamagedEntryError, DecodeContext, decode_entries
from readonly_spark.rows.native_builder import ROW_BUILDER, NativeRowBuilder
from readonly_spark.rows.python_builder import PythonRowBuilder

from tests.support.examples import examples
from tests.unit.spark.rows.test_decode import schema_of
from tests.unit.spark.stored import LEDGER, batch, batch_body, metadata, payload

pytestmark = pytest.mark.skipif(
    ROW_BUILDER is not NativeRowBuilder, reason="the module in C was not built, or is not wanted"
)

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
KEYS = st.text(max_size=6) | st.binary(max_size=9).map(lambda key: base64.b64encode(key).decode())
PROPERTIES = st.lists(st.builds(KeyValue, key=st.text(max_size=2), value=st.text(max_size=3)), max_size=4)

SINGLES = st.fixed_dictionaries(
    {},
    optional={
        "sequence_id": INT64,
        "partition_key": KEYS,
        "partition_key_b64_encoded": st.booleans(),
        "null_partition_key": st.booleans(),
        "event_time": INT64,
        "null_value": st.booleans(),
        "compacted_out": st.booleans(),
        "ordering_key": st.binary(max_size=4),
        "properties": PROPERTIES,
    },
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "producer_name": st.text(max_size=5),
        "sequence_id": INT64,
        "publish_time": INT64,
        "partition_key": KEYS,
        "partition_key_b64_encoded": st.booleans(),
        "null_partition_key": st.booleans(),
        "event_time": INT64,
        "null_value": st.booleans(),
        "ordering_key": st.binary(max_size=4),
        "properties": PROPERTIES,
        "replicated_from": st.text(max_size=3),
        "replicate_to": st.lists(st.text(max_size=3), max_size=2),
        "schema_version": st.binary(max_size=8),
        "deliver_at_time": INT64,
        "highest_sequence_id": INT64,
        "uncompressed_size": INT32,
    },
)
NOT_SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        "txnid_least_bits": st.integers(0, 2),
        "txnid_most_bits": st.integers(0, 2),
        "marker_type": st.sampled_from([10, 21, 22]),
        "encryption_keys": st.just([EncryptionKeys(key="k", value=b"v")]),
        "uuid": st.just("u"),
        "num_chunks_from_msg": st.integers(0, 2),
        "chunk_id": st.integers(0, 1),
        "num_messages_in_batch": INT32,
    },
)


@st.composite
def stored(draw):
    """The payload of an entry: sound, and then perhaps damaged with or without a checksum that says so."""
    fields = draw(METADATA)
    if draw(st.integers(0, 4)) == 0:
        fields |= draw(NOT_SIMPLE)
    if draw(st.booleans()):
        body = draw(st.binary(max_size=60))
    else:
        singles = draw(st.lists(st.tuples(SINGLES, st.binary(max_size=200)), min_size=1, max_size=5))
        body = batch_body(*singles)
        if draw(st.integers(0, 9)):
            fields["num_messages_in_batch"] = len(singles)
    if draw(st.integers(0, 4)) == 0:
        fields |= {"compression": LZ4, "uncompressed_size": len(body)}
        body = lz4.block.compress(body, store_size=False)
    found = payload(metadata(**fields), body)
    if draw(st.booleans()):
        found = found[6:]  # without a checksum, so that what is damaged is looked into
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, len(found)))
        found = found[:at] + draw(st.binary(max_size=3)) + found[at + draw(st.integers(0, 3)) :]
    if draw(st.booleans()):
        head = BrokerEntryMetadata(broker_timestamp=draw(INT64), index=3).SerializeToString()
        found = b"\x0e\x02" + len(head).to_bytes(4, "big") + head + found
    return found


def decoded(kind, entries, names, most, aborted):
    """All rows, or the error and the rows before it."""
    columns = MessageColumns("persistent://public/default/t", 3, names, builder=kind)
    context = DecodeContext(ChunkedMessages(lambda *_: EarlierChunks([])), aborted)
    found, start, error = [], 0, ""
    try:
        while start < len(entries):
            start = decode_entries(entries, start, context, columns.rows, most)
            found += rows_of(columns, names)
    except DamagedEntryError as damage:
        error = str(damage)
        found += rows_of(columns, names)
    return found, error


def rows_of(columns, names):
    if not columns.rows.count:
        return []
    made = columns.batch(schema_of(names))
    made.validate(full=True)
    # Times as numbers: Python has no datetime for most of what fits into a timestamp.
    return [
        tuple(column[row].value if str(column.type).startswith("timestamp") else column[row].as_py() for column in made)
        for row in range(made.num_rows)
    ]


@settings(max_examples=examples(400))
@given(
    st.lists(stored(), min_size=1, max_size=4),
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.integers(1, 900),
    st.sampled_from([frozenset(), frozenset({(1, 1)})]),
)
@example([b"\x0e\x02\0\0\0\xff"], set(NAMES), 1, frozenset())
@example([payload(metadata(num_messages_in_batch=2**31 - 1), b"\0" * 40)], set(NAMES), 1, frozenset())
@example(
    [payload(metadata(properties=[KeyValue(key=str(n), value="v") for n in range(80)]), b"")],
    set(NAMES),
    1,
    frozenset(),
)
def test_it_is_the_twin_of_the_one_in_python(payloads, wanted, most, aborted):
    entries = [Entry(LEDGER, number, number - 1, 0, found) for number, found in enumerate(payloads)]
    names = [name for name in NAMES if name in wanted]
    assert decoded(NativeRowBuilder, entries, names, most, aborted) == decoded(
        PythonRowBuilder, entries, names, most, aborted
    )


def decoded_alike(entries):
    rows = NativeRowBuilder(Projection())
    simple = rows.append_entries(entries, 0, 1 << 20, False)
    assert decoded(NativeRowBuilder, entries, NAMES, 1, frozenset()) == decoded(
        PythonRowBuilder, entries, NAMES, 1, frozenset()
    )
    return simple == len(entries)


@given(st.text("AQgwZz09+/= \n!", max_size=12))
def test_keys_in_base64(key):
    meta = metadata(partition_key=key, partition_key_b64_encoded=True)
    simple = decoded_alike([Entry(LEDGER, 0, -1, 0, payload(meta, b""))])
    with contextlib.suppress(binascii.Error):
        if base64.b64encode(base64.b64decode(key, validate=True)).decode() == key:
            assert simple


@given(st.binary(min_size=4, max_size=4) | st.text(max_size=4).map(str.encode).filter(lambda text: len(text) == 4))
@example(b"\xc0\x80ab")
@example(b"\xe0\x80\x80a")
@example(b"\xed\xa0\x80a")
@example(b"\xf0\x80\x80\x80")
@example(b"\xf4\x90\x80\x80")
def test_properties_that_are_text_and_such_that_are_not(text):
    meta = metadata(properties=[KeyValue(key="k", value="abcd"), KeyValue(key="abcd", value="w")])
    whole = payload(meta, b"")[6:].replace(b"abcd", text)
    simple = decoded_alike([Entry(LEDGER, 0, -1, 0, whole)])
    try:
        text.decode()
    except UnicodeDecodeError:
        assert not simple
    else:
        assert simple


@given(st.data())
def test_an_entry_that_ends_anywhere_is_left_out_or_the_same_error(data):
    whole = payload(metadata(num_messages_in_batch=2), batch_body(({"partition_key": "k"}, b"abc"), ({}, b"defg")))[6:]
    cut = [Entry(LEDGER, 0, -1, 0, whole[: data.draw(st.integers(0, len(whole)))])]
    assert decoded(NativeRowBuilder, cut, NAMES, 1, frozenset()) == decoded(
        PythonRowBuilder, cut, NAMES, 1, frozenset()
    )


@given(st.binary(max_size=40))
def test_metadata_of_any_bytes(head):
    whole = len(head).to_bytes(4, "big") + head + b"body"
    single = len(head).to_bytes(4, "big") + head + b"body"
    entries = [
        Entry(LEDGER, 0, -1, 0, whole),
        Entry(LEDGER, 1, 0, 0, payload(metadata(num_messages_in_batch=1), single)),
    ]
    assert decoded(NativeRowBuilder, entries, NAMES, 1, frozenset()) == decoded(
        PythonRowBuilder, entries, NAMES, 1, frozenset()
    )


@pytest.mark.parametrize("kind", [MessageMetadata, SingleMessageMetadata, BrokerEntryMetadata])
def test_every_field_that_there_is_was_thought_of(kind):
    known = {
        MessageMetadata: {*range(1, 10), *range(11, 21), *range(22, 31)},
        SingleMessageMetadata: set(range(1, 11)),
        BrokerEntryMetadata: {1, 2},
    }
    assert {field.number for field in kind.DESCRIPTOR.fields} == known[kind], "see _metadata.h"


def test_usual_entries_need_no_python():
    rows = NativeRowBuilder(Projection())
    entries = [
        batch(
            0, ({"partition_key": "k", "event_time": 5, "properties": [KeyValue(key="a", value="b")]}, b"v"), ({}, b"w")
        ),
        Entry(LEDGER, 1, 0, 0, payload(metadata(partition_key="aGk=", partition_key_b64_encoded=True), b"v")),
        Entry(LEDGER, 2, 1, 0, payload(metadata(encryption_keys=[EncryptionKeys(key="k", value=b"v")]), b"v")),
    ]
    assert rows.append_entries(entries, 0, 1 << 20, False) == 2
    assert rows.append_entries([entries[0]._replace(payload=memoryview(entries[0].payload))], 0, 1 << 20, False) == 1
    assert rows.count == 5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows: rows.append_entries([1], 0, 1, False),
        lambda rows: rows.append_entries([(1, 2, 3, 4, "text")], 0, 1, False),
        lambda rows: rows.append_entries([], -1, 1, False),
        lambda rows: rows.append_entries((), 0, 1, False),
        lambda rows: rows.append_message("text", -1, None, None, {}, 0, 0),
        lambda rows: rows.append_message(b"", -1, None, None, {1: 2}, 0, 0),
        lambda rows: rows.append_message(b"", -1, None, None, {}, 1 << 64, 0),
        lambda rows: rows.end_entry([]),
        lambda rows: rows.append_batch("text", 1, 1),
    ],
)
def test_wrong_arguments_are_errors(wrong):
    rows = NativeRowBuilder(Projection())
    with pytest.raises((TypeError, ValueError, OverflowError)):
        wrong(rows)
    rows.append_message(b"v", -1, None, None, {}, 0, 0)
    rows.end_entry((1, 2, None, 0, 0, "", None, None, None))
    assert rows.finish().values.to_pylist() == [b"v"]


def test_nothing_is_kept_for_good():
    good = [batch(number, *[({"partition_key": "k"}, b"v" * 1000)] * 50) for number in range(20)]
    bad = [good[0]._replace(payload=good[0].payload[:-1] + b"x")]

    def use():
        for _ in range(20):
            decoded_once(good)
            with pytest.raises(DamagedEntryError):
                decoded_once(bad)
        gc.collect()

    use()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10):
        use()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB; 200 batches are of 1 MB each


def decoded_once(entries):
    columns = MessageColumns("persistent://public/default/t", -1, NAMES, builder=NativeRowBuilder)
    decode_entries(entries, 0, DecodeContext(ChunkedMessages(lambda *_: EarlierChunks([]))), columns.rows, 1 << 30)
    return columns.batch(schema_of(NAMES))


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0, 9, 10, 12345, 2**31 - 1])), min_size=1, max_size=9))
def test_message_ids_of_rows(rows):
    entry_of_row, indexes = (pa.array(column, pa.int32()) for column in zip(*rows, strict=True))
    taken = RowBatch(len(rows), [], entry_of_row, indexes, *[None] * 6)
    found = NativeRowBuilder(Projection()).message_ids(["7:0:-1", "7:1:-1"], taken)
    found.validate(full=True)
    assert found.to_pylist() == PythonRowBuilder(Projection()).message_ids(["7:0:-1", "7:1:-1"], taken).to_pylist()


@pytest.mark.parametrize(("entry_of_row", "index"), [([2], 0), ([-1], 0), ([0], -1), ([], 0)])
def test_message_ids_of_rows_that_cannot_be(entry_of_row, index):
    taken = RowBatch(1, [], pa.array(entry_of_row, pa.int32()), pa.array([index], pa.int32()), *[None] * 6)
    with pytest.raises(ValueError, match="row"):
        NativeRowBuilder(Projection()).message_ids(["a", "b"], taken)
