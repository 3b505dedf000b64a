"""Values of KEY_VALUE schemas: both encodings, deletions, versions, and payloads that lie."""

import json
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.errors import MalformedFrameError
from readonly_spark.values.decoder import ValueDecoder
from readonly_spark.values.key_value import (
    INLINE,
    SEPARATED,
    KeyValueSchema,
    Part,
    format_key_value,
    join_pair,
    parse_key_value,
    split_pair,
)
from readonly_spark.values.schema import Definition, SchemaError, ValueSchema, parse_definition, value_type
from readonly_spark.values.type_names import spark_name

from tests.unit.spark.values.test_values import record, version, written

ROW = record("name", n={"type": "int"})
NEWER = record("name", n={"type": "int"}, more={"type": ["null", "string"], "default": None})


def definition(encoding, value=ROW, key="INT32", value_kind="AVRO"):
    """A schema as the registry has it."""
    text = json.dumps(value).encode()
    properties = {
        "kv.encoding.type": encoding,
        "key.schema.name": "", "key.schema.type": key, "key.schema.properties": "{}",
        "value.schema.name": "", "value.schema.type": value_kind, "value.schema.properties": json.dumps({"x": "y"}),
    }  # fmt: skip
    return Definition("KEY_VALUE", b"\0\0\0\0" + len(text).to_bytes(4, "big") + text, properties)


def decode(schema, pairs, versions=None, target=None):
    decoder = ValueDecoder(schema, target or value_type(schema.newest))
    keys, values = zip(*pairs, strict=True)
    versions = versions or [None] * len(values)
    found = decoder.column(values, versions, None, keys).to_pylist()
    arrays = [pa.array(one, pa.binary()) for one in (values, versions, keys)]
    assert decoder.decode(arrays[0], arrays[1], None, arrays[2]).to_pylist() == found
    return found


def number(value):
    return struct.pack(">i", value)


def test_the_key_of_the_message_is_the_key_of_the_value():
    schema = ValueSchema(definition(SEPARATED))
    assert spark_name(value_type(schema.newest)) == "struct<key:int,value:struct<name:string,n:int>>"
    row = written(ROW, {"name": "a", "n": 1})
    assert decode(schema, [(number(7), row), (number(8), None), (None, row), (None, None)]) == [
        {"key": 7, "value": {"name": "a", "n": 1}},
        {"key": 8, "value": None},  # a deletion
        {"key": None, "value": {"name": "a", "n": 1}},
        None,
    ]


def test_both_parts_are_in_the_payload():
    schema = ValueSchema(definition(INLINE))
    row = written(ROW, {"name": "a", "n": 1})
    payload = b"\0\0\0\x04" + number(7) + len(row).to_bytes(4, "big") + row
    assert decode(schema, [(b"other", payload), (None, join_pair(number(8), None)), (b"k", None)]) == [
        {"key": 7, "value": {"name": "a", "n": 1}},
        {"key": 8, "value": None},
        None,
    ]


def test_each_value_by_the_version_that_wrote_it():
    old, new = definition(SEPARATED), definition(SEPARATED, NEWER)
    schema = ValueSchema(new, {0: old, 1: new})
    pairs = [
        (number(1), written(ROW, {"name": "a", "n": 1})),
        (number(2), written(NEWER, {"name": "b", "n": 2, "more": "c"})),
    ]
    assert decode(schema, pairs, [version(0), version(1)]) == [
        {"key": 1, "value": {"name": "a", "n": 1, "more": None}},
        {"key": 2, "value": {"name": "b", "n": 2, "more": "c"}},
    ]
    planned = value_type(old)
    assert [row["value"] for row in decode(schema, pairs, [version(0), version(1)], planned)] == [
        {"name": "a", "n": 1},
        {"name": "b", "n": 2},
    ]


def test_an_encoding_that_changed_is_that_of_the_version():
    old, new = definition(INLINE), definition(SEPARATED)
    schema = ValueSchema(new, {0: old, 1: new})
    row = written(ROW, {"name": "a", "n": 1})
    assert (
        decode(schema, [(b"x", join_pair(number(7), row)), (number(7), row)], [version(0), version(1)])
        == [{"key": 7, "value": {"name": "a", "n": 1}}] * 2
    )


@pytest.mark.parametrize(
    ("encoding", "key", "payload", "expected"),
    [
        (SEPARATED, None, join_pair(b"k", b"v"), (b"k", b"v")),
        (SEPARATED, None, join_pair(b"k", None), (b"k", None)),
        (SEPARATED, None, join_pair(None, b"v"), (None, b"v")),
        (SEPARATED, None, b"v", (None, b"v")),
        (INLINE, b"k", b"v", (b"k", b"v")),
        (INLINE, b"own", join_pair(b"k", b"v"), (b"k", b"v")),
    ],
)
def test_a_message_in_the_other_encoding_than_its_version(encoding, key, payload, expected):
    schema = ValueSchema(definition(encoding, key="BYTES", value_kind="BYTES"))
    usual = (b"a", b"b") if encoding == SEPARATED else (None, join_pair(b"a", b"b"))
    rows = [{"key": b"a", "value": b"b"}, None, dict(zip(("key", "value"), expected, strict=True))]
    assert decode(schema, [usual, (None, None), (key, payload)]) == rows


@pytest.mark.parametrize("value", [0, -1, 0xFFFFFFFF, -1 << 32])
def test_a_number_without_a_key_is_not_taken_for_an_inline_pair(value):
    schema = ValueSchema(definition(SEPARATED, value_kind="INT64"))
    assert decode(schema, [(None, struct.pack(">q", value))]) == [{"key": None, "value": value}]


@pytest.mark.parametrize(
    "payload", [b"", b"\0\0\0\x05abc", b"\xff\xff\xff\xfe", join_pair(b"1", b"2")[:-1], b"\x7f\xff\xff\xff"]
)
def test_a_payload_that_is_no_pair(payload):
    with pytest.raises(SchemaError, match="does not match its KEY_VALUE schema"):
        decode(ValueSchema(definition(INLINE)), [(None, payload)])
    assert decode(ValueSchema(definition(INLINE), nulls=True), [(None, payload)]) == [None]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Definition("KEY_VALUE", b"\0", {}), "the KEY_VALUE schema is damaged"),
        (Definition("KEY_VALUE", join_pair(b"", b""), {}), "damaged: 'key.schema.type'"),
        (definition("ELSEWHERE"), "kv.encoding.type is 'ELSEWHERE'; it must be INLINE or SEPARATED"),
        (definition(INLINE, key="KEY_VALUE"), "is one itself; set valueSchema=raw"),
        (definition(INLINE, key="AUTO_CONSUME"), "values of a AUTO_CONSUME schema cannot be decoded"),
    ],
)
def test_schemas_that_cannot_be_used(found, told):
    with pytest.raises(SchemaError, match=told):
        value_type(found)


def test_a_schema_in_the_option():
    given = {
        "type": "KEY_VALUE",
        "encoding": "separated",
        "key": {"type": "STRING"},
        "value": {"type": "JSON", "schema": ROW},
    }
    made = parse_definition(json.dumps(given))
    assert decode(ValueSchema(made), [(b"k", b'{"name": "a", "n": 1}')]) == [
        {"key": "k", "value": {"name": "a", "n": 1}}
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"key": {"type": "STRING"}}, 'valueSchema: value must be as {"type"'),
        ({"key": {"type": "STRING"}, "value": {"type": "X"}}, "valueSchema: value: type 'X' must be one of"),
        (
            {"key": {"type": "STRING"}, "value": {"type": "STRING"}, "encoding": "x"},
            "encoding 'x' must be INLINE or SEPARATED",
        ),
    ],
)
def test_options_that_are_refused(given, told):
    with pytest.raises(SchemaError, match=told):
        parse_definition(json.dumps({"type": "KEY_VALUE", **given}))


def test_other_kinds_of_the_topic_are_no_pairs():
    schema = ValueSchema(definition(SEPARATED), {0: Definition("STRING"), 1: definition(SEPARATED)})
    with pytest.raises(SchemaError, match="was written as string, and is read as struct"):
        decode(schema, [(b"k", b"text")], [version(0)])


@given(st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=50))
def test_pairs_survive_their_encoding(key, value):
    assert split_pair(join_pair(key, value)) == (key, value)


@given(st.binary(max_size=20))
def test_any_bytes_are_a_pair_or_refused(payload):
    try:
        key, value = split_pair(payload)
    except MalformedFrameError:
        return
    assert payload.startswith(join_pair(key, value))


@given(st.binary(), st.binary(), st.booleans(), st.dictionaries(st.text(), st.text(), max_size=2))
def test_schemas_survive_their_encoding(key, value, separated, properties):
    schema = KeyValueSchema(Part("AVRO", key, properties), Part("STRING", value, {}), separated)
    assert parse_key_value(*format_key_value(schema)) == schema


def test_the_column_of_a_query_may_have_one_part_only():
    target = pa.struct([pa.field("value", pa.struct([pa.field("n", pa.int32())]))])
    row = written(ROW, {"name": "a", "n": 1})
    assert decode(ValueSchema(definition(SEPARATED)), [(b"no number", row)], None, target) == [{"value": {"n": 1}}]
