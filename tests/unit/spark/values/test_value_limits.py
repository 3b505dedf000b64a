"""Items of lists and maps are values in each column below them: a payload with too many is refused, whatever its kind."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from readonly_spark.values.decoder import ValueDecoder
from readonly_spark.values.key_value import KEY_VALUE, KeyValueSchema, Part, format_key_value
from readonly_spark.values.protobuf_limits import ProtobufLimits, _Walk
from readonly_spark.values.schema import Definition, SchemaError, ValueSchema, value_type
from readonly_spark.values.value_limits import (
    MAX_VALUES,
    UNCOUNTED_PER_BYTE,
    ValueLimitError,
    column_count,
    value_counter,
)

COLUMNS = 1024
WIDE = pa.struct([pa.field(f"c{number}", pa.int32()) for number in range(COLUMNS - 1)])


def wide(width: int = COLUMNS) -> dict[str, Any]:
    fields = [{"name": f"c{number}", "type": ["null", "int"]} for number in range(width - 1)]
    return {"type": "record", "name": "wide", "fields": fields}


def json_schema(items: Any) -> Definition:
    fields = [
        {"name": "all", "type": {"type": "array", "items": items}},
        {"name": "by", "type": ["null", {"type": "map", "values": "wide"}]},
    ]
    return Definition("JSON", json.dumps({"type": "record", "name": "r", "fields": fields}).encode())


def proto_schema(syntax: str = "proto2") -> Definition:
    inner = DescriptorProto(name="Wide")
    for number in range(COLUMNS - 1):
        inner.field.add(
            name=f"c{number}",
            number=number + 1,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            type=FieldDescriptorProto.TYPE_INT32,
        )
    root = DescriptorProto(name="Root")
    root.field.add(
        name="all",
        number=1,
        label=FieldDescriptorProto.LABEL_REPEATED,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".p.Wide",
    )
    file = FileDescriptorProto(name="w.proto", package="p", syntax=syntax, message_type=[inner, root])
    files = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    return Definition(
        "PROTOBUF_NATIVE", json.dumps({"fileDescriptorSet": files, "rootMessageTypeName": "p.Root"}).encode()
    )


def json_items(number: int) -> bytes:
    return b'{"all": [' + b",".join([b"{}"] * number) + b"]}"


def json_entries(number: int) -> bytes:
    return json.dumps({"all": [], "by": {str(one): {} for one in range(number)}}).encode()


def proto_items(number: int) -> bytes:
    return b"\x0a\x00" * number


def decoded(schema: Definition, payloads: list[bytes], *, nulls: bool = False) -> pa.Array:
    made = ValueDecoder(ValueSchema(schema, nulls=nulls), value_type(schema))
    return made.decode(pa.array(payloads, pa.binary()), pa.nulls(len(payloads), pa.binary()))


@pytest.mark.parametrize(
    ("schema", "payload"),
    [(json_schema(wide()), json_items), (json_schema(wide()), json_entries)],
    ids=["array", "map"],
)
def test_empty_items_with_many_columns_at_their_bound(schema, payload):
    most = MAX_VALUES // COLUMNS
    assert len(decoded(schema, [payload(most)])) == 1
    with pytest.raises(SchemaError, match=f"the payload has more than {MAX_VALUES:,} values; set decodeErrors=null"):
        decoded(schema, [payload(most + 1)])
    assert decoded(schema, [payload(most + 1), payload(0)], nulls=True).is_valid().to_pylist() == [False, True]


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_empty_messages_with_many_fields(syntax):
    """They are counted before they are parsed: each takes memory for all its fields."""
    schema = proto_schema(syntax)
    assert len(decoded(schema, [proto_items(3)])[0].as_py()["all"]) == 3
    for number in (MAX_VALUES // COLUMNS + 1, 2_500_000):
        with pytest.raises(
            SchemaError, match=f"the payload has more than {MAX_VALUES:,} values; set decodeErrors=null"
        ):
            decoded(schema, [proto_items(number)])


def test_groups_maps_and_unknown_fields_are_walked():
    """A payload that is walked has the value that it has without."""
    root = DescriptorProto(name="Root")
    wide = root.nested_type.add(name="Wide")
    for number in range(COLUMNS):
        wide.field.add(name=f"c{number}", number=number + 1, label=1, type=FieldDescriptorProto.TYPE_SINT64)
    entry = root.nested_type.add(name="ByEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=FieldDescriptorProto.TYPE_STRING)
    entry.field.add(name="value", number=2, label=1, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".p.Root.Wide")
    for number, (name, label, kind, of) in enumerate(
        [
            ("all", 3, FieldDescriptorProto.TYPE_MESSAGE, ".p.Root.Wide"),
            ("by", 3, FieldDescriptorProto.TYPE_MESSAGE, ".p.Root.ByEntry"),
            ("group", 3, FieldDescriptorProto.TYPE_GROUP, ".p.Root.Wide"),
            ("one", 1, FieldDescriptorProto.TYPE_MESSAGE, ".p.Root.Wide"),
            ("text", 1, FieldDescriptorProto.TYPE_STRING, ""),
        ]
    ):
        root.field.add(name=name, number=number + 1, label=label, type=kind, type_name=of or None)
    file = FileDescriptorProto(name="m.proto", package="p", syntax="proto2", message_type=[root])
    pool = DescriptorPool()
    pool.Add(file)
    made = GetMessageClass(pool.FindMessageTypeByName("p.Root"))
    text = "x" * 20_000  # long enough for a walk
    unknown = b"\xa8\x1f\x07" + b"\xa1\x1f" + bytes(8) + b"\xa5\x1f" + bytes(4) + b"\xa3\x1f\xa8\x1f\x01\xa4\x1f"
    parts = {
        "messages": made(text=text, all=[{"c1": -1}, {}]).SerializeToString() + unknown,
        "groups": unknown + made(text=text, group=[{"c7": 2**60}, {"c9": 1}], one={"c3": 1}).SerializeToString(),
        "map": made(text=text, by={"a": {"c1": 1}, "b": {}}).SerializeToString(),
    }
    limits = ProtobufLimits(made.DESCRIPTOR)
    for name, payload in parts.items():
        made.FromString(payload)
        walk = _Walk(limits._widths, payload)
        assert walk.message(made.DESCRIPTOR, 0, len(payload), 0) == len(payload), name
        assert COLUMNS < walk._values < 4 * COLUMNS, name
        for end in range(0, len(payload), 97):
            limits.check(payload[:end])  # malformed, and no endless walk
    most = MAX_VALUES // (COLUMNS + 1)
    for payload in (b"\x0a\x00" * (most + 1), b"\x1b\x1c" * (most + 1), b"\x12\x02\x12\x00" * (most + 1)):
        with pytest.raises(ValueLimitError):
            limits.check(payload + made(text=text).SerializeToString())
    deep = b"\xa3\x1f" * 200_000
    limits.check(deep)


def test_messages_that_use_each_other_twice():
    """60 lines of a definition make a type of 2**60 fields."""
    file = FileDescriptorProto(name="t.proto", package="p", syntax="proto3")
    first = file.message_type.add(name="T0")
    first.field.add(name="a", number=1, label=1, type=FieldDescriptorProto.TYPE_INT32)
    for number in range(1, 60):
        message = file.message_type.add(name=f"T{number}")
        for name in ("a", "b"):
            message.field.add(
                name=name,
                number=ord(name) - ord("a") + 1,
                label=1,
                type=FieldDescriptorProto.TYPE_MESSAGE,
                type_name=f".p.T{number - 1}",
            )
    files = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    text = json.dumps({"fileDescriptorSet": files, "rootMessageTypeName": "p.T59"}).encode()
    with pytest.raises(SchemaError, match="more than 10,000 fields"):
        value_type(Definition("PROTOBUF_NATIVE", text))


def test_the_values_of_a_batch_have_a_bound():
    schema = json_schema(wide())
    half = json_items(MAX_VALUES // COLUMNS // 2)
    with pytest.raises(SchemaError, match="the payloads of one record batch have more than 67,108,864 values"):
        decoded(schema, [half] * 17)


def test_lists_in_lists_and_parts_of_a_pair():
    items = {"type": "array", "items": wide()}
    schema = json_schema(items)
    one = b"[" + b",".join([b"{}"] * 64) + b"]"
    row = b'{"all": [' + b",".join([one] * (MAX_VALUES // COLUMNS // 64 + 1)) + b"]}"
    with pytest.raises(SchemaError, match="more than"):
        decoded(schema, [row])
    pair = KeyValueSchema(Part("STRING", b"", {}), Part("JSON", schema.text, {}), separated=True)
    text, properties = format_key_value(pair)
    keyed = Definition(KEY_VALUE, text, properties)
    made = ValueDecoder(ValueSchema(keyed), value_type(keyed))
    with pytest.raises(SchemaError, match="more than"):
        made.column([row], [None], keys=[b"k"])


def test_narrow_items_are_not_counted():
    narrow = pa.struct([pa.field(f"c{number}", pa.int32()) for number in range(UNCOUNTED_PER_BYTE - 1)])
    wider = pa.struct([*narrow, pa.field("more", pa.int32())])
    assert column_count(narrow) == UNCOUNTED_PER_BYTE
    for kind in (pa.int64(), WIDE, pa.list_(narrow), pa.map_(pa.string(), narrow), pa.struct({"a": pa.list_(narrow)})):
        assert value_counter(kind) is None, kind
    for kind in (pa.list_(wider), pa.list_(pa.list_(wider)), pa.map_(pa.string(), pa.list_(wider))):
        assert value_counter(kind) is not None, kind


def test_values_that_do_not_fit_are_left_to_arrow():
    counted = value_counter(pa.struct({"a": pa.list_(WIDE), "b": pa.list_(pa.list_(WIDE))}))
    assert counted is not None
    for found in (None, 3, "text", [], {}, {"a": None}, {"a": 3}, {"b": [None, 3]}):
        assert counted(found) <= 2, found
    assert counted({"a": [{}, None], "b": [[{}], None]}) == COLUMNS * 3 + 2
