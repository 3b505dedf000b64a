import base64
from datetime import UTC, datetime

import lz4.block
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.position import Position
from readonly_engine.wire.batch import decode_stored_entry, unpack
from readonly_engine.wire.chunks import MAX_OPEN
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import LZ4, TXN_COMMIT, BrokerEntryMetadata, EncryptionKeys, KeyValue
from readonly_spark.rows.arrays import binary_array
from readonly_spark.rows.chunks import ChunkedMessages, EarlierChunks
from readonly_spark.rows.columns import BY_NAME, COLUMNS, NAMES, MessageColumns
from readonly_spark.rows.decode import DamagedEntryError, DecodeContext, decode_entries
from readonly_spark.rows.native_builder import ROW_BUILDER, NativeRowBuilder
from readonly_spark.rows.python_builder import PythonRowBuilder

from tests.unit.spark.stored import LEDGER, batch, batch_body, entry, metadata

PLENTY = 1 << 30


class Kind:
    """The rows that the tests of this file are run with."""

    builder = PythonRowBuilder


@pytest.fixture(params=[PythonRowBuilder, NativeRowBuilder], ids=["python", "c"], autouse=True, scope="module")
def _kind_of_rows(request):
    if request.param is NativeRowBuilder and ROW_BUILDER is not NativeRowBuilder:
        pytest.skip("the module in C was not built, or is not wanted")
    Kind.builder = request.param


def no_chunks(uuid, before):
    del before
    raise AssertionError(f"looked for {uuid}")


def schema_of(names):
    return pa.schema([(name, BY_NAME[name].arrow) for name in names])


def decode(entries, names=NAMES, aborted=frozenset(), partition=-1, earlier=no_chunks, most=PLENTY):
    """Rows as dictionaries, over as many Arrow batches as it takes."""
    columns = MessageColumns("persistent://public/default/t", partition, names, builder=Kind.builder)
    context = DecodeContext(ChunkedMessages(earlier), aborted)
    rows, start = [], 0
    while start < len(entries):
        start = decode_entries(entries, start, context, columns.rows, most)
        if columns.rows.count:
            found = columns.batch(schema_of(names))
            found.validate(full=True)
            rows += found.to_pylist()
    return rows


def test_one_message_with_everything():
    meta = metadata(
        sequence_id=9, publish_time=1_700_000_000_123, event_time=1000, ordering_key=b"o", schema_version=b"\x01",
        partition_key=base64.b64encode(b"\xff").decode(), partition_key_b64_encoded=True, replicated_from="west",
        properties=[KeyValue(key="a", value="1"), KeyValue(key="b", value="2"), KeyValue(key="a", value="3")],
    )  # fmt: skip
    (row,) = decode([entry(3, meta, b"hello")], partition=2)
    assert row == {
        "topic": "persistent://public/default/t",
        "partition": 2,
        "messageId": "7:3:2",
        "ledgerId": 7,
        "entryId": 3,
        "batchIndex": None,
        "batchSize": None,
        "publishTime": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
        "eventTime": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "brokerTime": None,
        "index": None,
        "key": b"\xff",
        "orderingKey": b"o",
        "value": b"hello",
        "properties": [("a", "3"), ("b", "2")],
        "producerName": "p",
        "sequenceId": 9,
        "schemaVersion": b"\x01",
        "replicatedFrom": "west",
        "encryption": None,
    }


def test_a_batch_in_which_every_message_differs():
    rows = decode([
        batch(0, ({"sequence_id": 5}, b"a"), ({"sequence_id": 300}, b"b" * 200), ({}, b"")),
        batch(1, ({"partition_key": "k"}, b"c"), ({"compacted_out": True}, b"x"), ({"null_value": True}, b""), sequence_id=40),
    ])  # fmt: skip
    assert [(row["value"], row["sequenceId"], row["batchIndex"], row["batchSize"]) for row in rows] == [
        (b"a", 5, 0, 3),
        (b"b" * 200, 300, 1, 3),
        (b"", 2, 2, 3),
        (b"c", 40, 0, 3),
        (None, 42, 2, 3),
    ]
    assert [row["messageId"] for row in rows] == ["7:0:-1:0", "7:0:-1:1", "7:0:-1:2", "7:1:-1:0", "7:1:-1:2"]
    assert [row["key"] for row in rows] == [None, None, None, b"k", None]


def test_batches_and_single_messages_together():
    rows = decode([batch(0, ({}, b"a"), ({}, b"b")), entry(1, metadata(), b"c")])
    assert [(row["messageId"], row["batchIndex"], row["batchSize"]) for row in rows] == [
        ("7:0:-1:0", 0, 2),
        ("7:0:-1:1", 1, 2),
        ("7:1:-1", None, None),
    ]


def test_the_index_is_that_of_javas_client():
    def indexed(number, index, kind, *messages, **fields):
        made = batch(number, *messages, **fields) if kind == "batch" else entry(number, metadata(**fields), b"v")
        front = BrokerEntryMetadata(broker_timestamp=5_000, index=index).SerializeToString()
        return made._replace(payload=b"\x0e\x02" + len(front).to_bytes(4, "big") + front + made.payload)

    rows = decode([
        indexed(0, 0, "single"),
        indexed(1, 3, "batch", ({}, b"a"), ({}, b"b"), ({}, b"c")),
        indexed(2, 5, "batch", ({"compacted_out": True}, b"x"), ({}, b"d")),
        indexed(3, 6, "single"),
        indexed(4, 8, "single", encryption_keys=[EncryptionKeys(key="k", value=b"v")], num_messages_in_batch=2),
        entry(5, metadata(), b"v"),
        batch(6, ({}, b"e"), ({}, b"f")),
    ])  # fmt: skip
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 5, 6, 8, None, None, None]
    assert [row["brokerTime"] for row in rows[:7]] == [datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)] * 7
    assert [row["index"] for row in decode([indexed(0, 9, "single")])] == [9]
    assert [row["index"] for row in decode([indexed(0, 2**63 - 1, "batch", ({}, b"a"))])] == [2**63 - 1]


def test_compressed():
    body = batch_body(({}, b"a" * 100), ({}, b"b"))
    meta = metadata(compression=LZ4, uncompressed_size=len(body), num_messages_in_batch=2)
    rows = decode([entry(0, meta, lz4.block.compress(body, store_size=False))])
    assert [row["value"] for row in rows] == [b"a" * 100, b"b"]


def test_what_nobody_may_see_is_left_out():
    txn = {"txnid_most_bits": 1, "txnid_least_bits": 2}
    entries = [
        entry(0, metadata(marker_type=TXN_COMMIT, **txn), b""),
        entry(1, metadata(**txn), b"aborted"),
        entry(2, metadata(txnid_most_bits=1, txnid_least_bits=3), b"committed"),
        Entry(LEDGER, 3, 2, 0, b"no entry of a producer"),
        Entry(LEDGER, 4, 3, 0, b""),
        entry(5, metadata(), b"plain"),
    ]
    rows = decode(entries, aborted=frozenset({(1, 2)}))
    assert [row["value"] for row in rows] == [b"committed", b"plain"]


def test_encrypted_entries_are_passed_on_with_what_opens_them():
    keys = [EncryptionKeys(key="k1", value=b"\x01", metadata=[KeyValue(key="v", value="2")])]
    body = batch_body(({}, b"a"), ({}, b"b"))
    meta = metadata(
        encryption_keys=keys, encryption_algo="x", encryption_param=b"\x07", compression=LZ4, uncompressed_size=99,
        num_messages_in_batch=2,
    )  # fmt: skip
    (row,) = decode([entry(0, meta, body)])
    assert (row["value"], row["batchIndex"], row["batchSize"]) == (body, None, 2)
    assert row["encryption"] == {
        "keys": [{"name": "k1", "value": b"\x01", "metadata": [("v", "2")]}],
        "algorithm": "x",
        "parameter": b"\x07",
        "compression": "LZ4",
        "uncompressedSize": 99,
        "chunkUuid": None,
        "chunkId": None,
        "chunks": None,
    }


def chunk(entry_id, number, of, value, uuid="u", **fields):
    meta = metadata(uuid=uuid, chunk_id=number, num_chunks_from_msg=of, total_chunk_msg_size=len(value), **fields)
    size = -(-len(value) // of)
    return entry(entry_id, meta, value[number * size : (number + 1) * size])


def test_chunks_are_joined_where_the_last_one_is():
    whole = b"0123456789"
    entries = [chunk(0, 0, 3, whole), entry(1, metadata(), b"between"), chunk(2, 1, 3, whole), chunk(3, 2, 3, whole)]
    rows = decode(entries)
    assert [(row["messageId"], row["value"]) for row in rows] == [("7:1:-1", b"between"), ("7:3:-1", whole)]


def search_in(entries, whole=True):
    """The chunks of a message before an entry, from its last first chunk on."""

    def earlier(uuid, before):
        found = []
        for one in reversed([one for one in entries if one.entry_id < before.entry_id]):
            stored = decode_stored_entry(one.payload)
            if stored.chunk and stored.metadata.uuid == uuid:
                found.append(stored)
                if stored.metadata.chunk_id == 0:
                    break
        return EarlierChunks(found[::-1], whole)

    return earlier


@pytest.mark.parametrize("messages", [MAX_OPEN, MAX_OPEN + 50])
def test_messages_that_memory_does_not_hold_are_read_again(messages):
    values = [b"value-%04d" % number for number in range(messages)]
    entries = [chunk(number, 0, 2, value, uuid=f"u{number}") for number, value in enumerate(values)]
    entries += [chunk(messages + number, 1, 2, value, uuid=f"u{number}") for number, value in enumerate(values)]
    assert [row["value"] for row in decode(entries, earlier=search_in(entries))] == values


@pytest.mark.parametrize("whole", [True, False])
def test_messages_without_chunks_are_counted(whole):
    entries = [chunk(0, 1, 2, b"abcd"), chunk(1, 0, 2, b"abcd", uuid="never ended"), chunk(2, 1, 3, b"abc", uuid="w")]
    chunked = ChunkedMessages(search_in(entries, whole))
    columns = MessageColumns("persistent://public/default/t", -1, NAMES, builder=Kind.builder)
    assert decode_entries(entries, 0, DecodeContext(chunked), columns.rows, PLENTY) == 3
    assert columns.rows.count == 0
    assert (chunked.incomplete, chunked.unknown) == ((1, []) if whole else (0, [Position(7, 0)]))


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_wherever_a_range_is_cut_each_chunked_message_is_in_one_part(cut):
    whole, other = b"0123456789", b"abcdef"
    entries = [
        chunk(0, 0, 3, whole),
        chunk(1, 1, 3, whole),
        chunk(2, 0, 2, other, uuid="v"),
        chunk(3, 2, 3, whole),
        chunk(4, 1, 2, other, uuid="v"),
    ]

    rows = decode(entries[:cut]) + decode(entries[cut:], earlier=search_in(entries))
    assert [(row["messageId"], row["value"]) for row in rows] == [("7:3:-1", whole), ("7:4:-1", other)]


@pytest.mark.parametrize(
    "broken",
    [
        entry(0, metadata(compression=LZ4, uncompressed_size=50), b"\xff\xff"),
        entry(0, metadata(num_messages_in_batch=3), batch_body(({}, b"a"))),
        entry(0, metadata(num_messages_in_batch=1), b"\0\0\0\x09"),
    ],
    ids=["compression", "count", "size"],
)
def test_a_damaged_entry_is_the_named_error(broken):
    with pytest.raises(DamagedEntryError, match="entry 7:0: "):
        decode([broken])


def test_a_wrong_checksum_is_the_named_error():
    good = entry(0, metadata(), b"value")
    with pytest.raises(DamagedEntryError, match="checksum"):
        decode([good._replace(payload=good.payload[:-1] + b"x")])


singles = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "sequence_id": st.integers(0, 2**63 - 1),
                "partition_key": st.text(max_size=4),
                "event_time": st.integers(0, 2**40),
                "null_value": st.booleans(),
                "compacted_out": st.booleans(),
                "ordering_key": st.binary(max_size=4),
                "properties": st.lists(
                    st.builds(KeyValue, key=st.text(max_size=3), value=st.text(max_size=3)), max_size=2
                ),
            },
        ),
        st.binary(max_size=300),
    ),
    min_size=1,
    max_size=8,
)


@given(st.lists(singles, min_size=1, max_size=5), st.integers(1, 2000), st.sets(st.sampled_from(NAMES), min_size=1))
def test_rows_are_what_the_careful_decoder_gives_in_any_projection(entries, most, wanted):
    stored = [batch(number, *found) for number, found in enumerate(entries)]
    names = [name for name in NAMES if name in wanted]
    rows = decode(stored, names, most=most)
    expected = [(one, message) for one in stored for message in unpack(decode_stored_entry(one.payload))]
    assert len(rows) == len(expected)
    for row, (one, message) in zip(rows, expected, strict=True):
        assert list(row) == names
        told = {
            "value": message.value,
            "key": message.key,
            "orderingKey": message.ordering_key,
            "batchIndex": message.batch_index,
            "sequenceId": message.sequence_id,
            "entryId": one.entry_id,
            "messageId": f"7:{one.entry_id}:-1:{message.batch_index}",
            "properties": list(dict(message.properties).items()),
        }
        assert {name: row[name] for name in names if name in told} == {
            name: told[name] for name in names if name in told
        }


@given(st.lists(st.none() | st.binary(max_size=10), max_size=20))
def test_binary_arrays(values):
    found = binary_array(values)
    found.validate(full=True)
    assert found.to_pylist() == values


@given(st.binary(max_size=200), st.integers(1, 5))
def test_any_bytes_in_a_batch_are_messages_or_the_named_error(body, count):
    try:
        decode([entry(0, metadata(num_messages_in_batch=count), body)])
    except DamagedEntryError as error:
        assert "7:0" in str(error)  # noqa: PT017 - both outcomes are right


def test_columns_are_as_spark_declares_them():
    types = pytest.importorskip("pyspark.sql.pandas.types")
    sql = pytest.importorskip("pyspark.sql.types")
    for column in COLUMNS:
        assert types.from_arrow_type(column.arrow).simpleString() == column.spark
    assert isinstance(types.from_arrow_type(BY_NAME["publishTime"].arrow), sql.TimestampType)


def test_times_that_no_timestamp_can_be_are_null():
    far = 2**63 - 1
    (row,) = decode([entry(0, metadata(publish_time=far, event_time=far), b"")], names=["publishTime", "eventTime"])
    assert row == {"publishTime": None, "eventTime": None}
    rows = decode([batch(0, ({"event_time": far}, b""), ({"event_time": 1}, b""))], names=["eventTime"])
    assert [row["eventTime"] for row in rows] == [None, datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)]


def test_numbers_of_messages_wrap_as_in_java():
    rows = decode([batch(0, ({}, b""), ({}, b""), sequence_id=2**63 - 1)], names=["sequenceId"])
    assert [row["sequenceId"] for row in rows] == [2**63 - 1, -(2**63)]


def test_memory_is_used_again_only_when_nobody_reads_it_any_more():
    columns = MessageColumns("persistent://public/default/t", -1, ["value", "key"], builder=Kind.builder)
    batches = []
    for number in range(20):
        stored = [batch(0, *[({"partition_key": f"k{number}"}, bytes([number]) * 50)] * 10)]
        assert decode_entries(stored, 0, DecodeContext(ChunkedMessages(no_chunks)), columns.rows, PLENTY) == 1
        batches.append(columns.batch(schema_of(["value", "key"])))
    for number, found in enumerate(batches):
        assert found.to_pylist() == [{"value": bytes([number]) * 50, "key": f"k{number}".encode()}] * 10


def test_payloads_beside_decoded_values_whose_key_is_that_of_the_message():
    asked = []

    def values(payloads, versions, encrypted, keys):
        asked.append((payloads.to_pylist(), versions.to_pylist(), encrypted, keys.to_pylist()))
        return pa.array([1, 2], pa.int32())

    columns = MessageColumns(
        "persistent://public/default/t", -1, ("rawValue", "value"), values, keyed=True, builder=Kind.builder
    )
    sent = [entry(0, metadata(partition_key="k"), b"a"), entry(1, metadata(), b"b")]
    decode_entries(sent, 0, DecodeContext(ChunkedMessages(no_chunks), frozenset()), columns.rows, PLENTY)
    found = columns.batch(pa.schema([("rawValue", pa.binary()), ("value", pa.int32())]))
    assert found.to_pydict() == {"rawValue": [b"a", b"b"], "value": [1, 2]}
    assert asked == [([b"a", b"b"], [None, None], None, [b"k", None])]
