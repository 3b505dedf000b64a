import base64
import io
import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from readonly_spark.values.decoder import ValueDecoder
from readonly_spark.values.protobuf import message_class
from readonly_spark.values.schema import Definition, SchemaError, ValueSchema, parse_definition, value_type
from readonly_spark.values.type_names import TypeNameError, arrow_type, spark_name

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "prices", "type": {"type": "array", "items": "double"}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "inner", "type": ["null", {"type": "record", "name": "Inner", "fields": [{"name": "ok", "type": "boolean"}]}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}  # fmt: skip

IN_SPARK = (
    "struct<id:bigint,name:string,prices:array<double>,tags:map<string,int>,at:timestamp,day:date,raw:binary,kind:string,"
    "inner:struct<ok:boolean>,price:decimal(9,2),clock:int>"
)


def avro(definition):
    return Definition("AVRO", json.dumps(definition).encode())


def written(definition, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(definition), value)
    return out.getvalue()


def decode(schema, values, versions=None, target=None):
    """Decode each value alone, and as an array: both give the same."""
    decoder = ValueDecoder(schema, target or value_type(schema.newest))
    versions = versions or [None] * len(values)
    found = decoder.column(values, versions).to_pylist()
    assert decoder.decode(pa.array(values, pa.binary()), pa.array(versions, pa.binary())).to_pylist() == found
    return found


def version(number):
    return number.to_bytes(8, "big")


def record(*names, **more):
    fields = [{"name": name, "type": "string"} for name in names]
    fields += [{"name": name, **rest} for name, rest in more.items()]
    return {"type": "record", "name": "R", "fields": fields}


def listed(*fields):
    """A PROTOBUF schema of these fields, as the Java client makes it."""
    keys = ("name", "number", "type", "label")
    found = [{**dict(zip(keys, one, strict=True)), "definition": None} for one in fields]
    return Definition("PROTOBUF", b'{"type": "record"}', {"__PARSING_INFO__": json.dumps(found)})


def test_protobuf_with_a_list_of_fields():
    schema = ValueSchema(
        listed(
            ("name", 1, "STRING", "LABEL_OPTIONAL"),
            ("number", 2, "SINT64", "LABEL_REQUIRED"),
            ("inner", 5, "MESSAGE", "LABEL_OPTIONAL"),
            ("kind", 6, "ENUM", "LABEL_OPTIONAL"),
            ("many", 7, "DOUBLE", "LABEL_REPEATED"),
        )
    )
    assert spark_name(value_type(schema.newest)) == (
        "struct<name:string,number:bigint,inner:binary,kind:int,many:array<double>>"
    )
    values = [b"\x0a\x01a\x10\x03\x2a\x02\x08\x01\x30\x02\x3a\x08" + struct.pack("<d", 0.5), b""]
    assert decode(schema, values) == [
        {"name": "a", "number": -2, "inner": b"\x08\x01", "kind": 2, "many": [0.5]},
        {"name": "", "number": 0, "inner": b"", "kind": 0, "many": []},
    ]


def test_avro():
    assert spark_name(value_type(avro(ORDER))) == IN_SPARK
    moment = datetime(2026, 11, 21, 12, 0, 0, 123_000, UTC)
    value = {
        "id": 1 << 60, "name": None, "prices": [1.5], "tags": {"a": 1}, "at": moment, "day": date(2026, 11, 21), "raw": b"\xff",
        "kind": "B", "inner": {"ok": True}, "price": Decimal("12.34"), "clock": 1000,
    }  # fmt: skip
    plain = {**ORDER, "fields": [{**one, "type": "int"} if one["name"] == "clock" else one for one in ORDER["fields"]]}
    (found,) = decode(ValueSchema(avro(ORDER)), [written(plain, value)])
    assert found == {**value, "tags": [("a", 1)]}


def test_json_as_java_writes_it():
    definition = {**ORDER, "fields": [field for field in ORDER["fields"] if field["name"] != "price"]}
    value = {"id": 7, "prices": [1], "tags": {"a": 1}, "at": 1000, "day": 1, "raw": "/w==", "kind": "A", "clock": 5}
    schema = ValueSchema(Definition("JSON", json.dumps(definition).encode()))
    (found,) = decode(schema, [json.dumps({**value, "unknown": 1}).encode()])
    assert found == {
        **value, "name": None, "prices": [1.0], "tags": [("a", 1)], "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "day": date(1970, 1, 2), "raw": b"\xff", "inner": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "name", "expected"),
    [
        ("STRING", b"h\xc3\xa9", "string", "hé"),
        ("BYTES", b"\xff", "binary", b"\xff"),
        ("BOOLEAN", b"\x01", "boolean", True),
        ("INT8", b"\xff", "tinyint", -1),
        ("INT16", b"\0\x02", "smallint", 2),
        ("INT32", struct.pack(">i", -3), "int", -3),
        ("INT64", struct.pack(">q", 1 << 40), "bigint", 1 << 40),
        ("FLOAT", struct.pack(">f", 0.5), "float", 0.5),
        ("DOUBLE", struct.pack(">d", 0.1), "double", 0.1),
        ("TIMESTAMP", struct.pack(">q", 1500), "timestamp", datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ("INSTANT", struct.pack(">qi", 1, 500_000_999), "timestamp", datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ("INSTANT", struct.pack(">qi", -1, 999_999_000), "timestamp", datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        ("TIME", struct.pack(">q", 3_600_000), "bigint", 3_600_000),
        ("LOCAL_DATE", struct.pack(">q", -1), "date", date(1969, 12, 31)),
        ("LOCAL_TIME", struct.pack(">q", 86_399_999_999_999), "bigint", 86_399_999_999_999),
        ("LOCAL_DATE_TIME", struct.pack(">qq", 1, 1_500), "timestamp_ntz", datetime(1970, 1, 2, 0, 0, 0, 1)),  # noqa: DTZ001
    ],
)
def test_primitives(kind, value, name, expected):
    schema = ValueSchema(Definition(kind))
    assert spark_name(value_type(schema.newest)) == name
    assert decode(schema, [value, None]) == [expected, None]


def test_evolution_each_value_by_the_version_that_wrote_it():
    old, new = (
        record("a", n={"type": "int"}),
        record("a", n={"type": "long"}, more={"type": "string", "default": "none"}),
    )
    schema = ValueSchema(avro(new), {0: avro(old), 1: avro(new)})
    values = [written(old, {"a": "x", "n": 1}), written(new, {"a": "y", "n": 2, "more": "z"})]
    assert decode(schema, values, [version(0), version(1)]) == [
        {"a": "x", "n": 1, "more": "none"},
        {"a": "y", "n": 2, "more": "z"},
    ]


def test_a_version_that_was_deleted_is_no_other_one():
    old, new = record("a", n={"type": "int"}), record("a", n={"type": "int"}, more={"type": "string"})
    value = written(old, {"a": "x", "n": 1})
    schema = ValueSchema(avro(new), {1: avro(new)})
    with pytest.raises(SchemaError, match="names schema version 0, which was deleted"):
        decode(schema, [value], [version(0)])
    assert decode(ValueSchema(avro(new), {1: avro(new)}, nulls=True), [value], [version(0)]) == [None]


def test_a_message_without_a_version_has_none_where_the_newest_was_deleted():
    schema = ValueSchema(avro(record("a")), {0: avro(record("a"))}, unversioned=False)
    value = written(record("a"), {"a": "x"})
    assert decode(schema, [value], [version(0)]) == [{"a": "x"}]
    with pytest.raises(SchemaError, match="names no schema version, and the newest version was deleted"):
        decode(schema, [value])


def test_a_schema_that_is_given_is_what_values_are_read_as_and_not_what_wrote_them():
    """Two texts swapped: by the wrong version both would be read, each as the other."""
    wrote, given = record("a", "b"), record("b", "a")
    value = written(wrote, {"a": "first", "b": "second"})
    schema = ValueSchema(avro(given), {0: avro(wrote)})
    assert decode(schema, [value], [version(0)]) == [{"a": "first", "b": "second"}]
    as_bytes = ValueSchema(avro(wrote), {0: Definition("BYTES")})
    assert decode(as_bytes, [value, value], [version(0), None]) == [{"a": "first", "b": "second"}] * 2


@pytest.mark.parametrize(
    ("given", "wrote", "value", "expected"),
    [
        ("JSON", avro(record("a")), written(record("a"), {"a": "x"}), {"a": "x", "b": None}),
        ("JSON", Definition("STRING"), b'{"a": "x"}', {"a": "x", "b": None}),
        (
            "TIMESTAMP",
            Definition("INT64"),
            struct.pack(">q", 1500),
            "the value was written as int64, and is read as timestamp",
        ),
        ("JSON", Definition("KEYVALUE"), b"{}", "KEYVALUE schema cannot be decoded"),
    ],
)
def test_what_wrote_a_value_counts_whatever_kind_is_given(given, wrote, value, expected):
    text = json.dumps(record("a", "b")).encode() if given == "JSON" else b""
    schema = ValueSchema(Definition(given, text), {0: wrote})
    if isinstance(expected, dict):
        assert decode(schema, [value], [version(0)]) == [expected]
        return
    with pytest.raises(SchemaError, match=expected):
        decode(schema, [value], [version(0)])


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_a_logical_type_that_the_newest_version_adds_or_drops(kind):
    """Arrow takes the integer 1500 for 1,500 microseconds; the field means milliseconds."""
    plain, timed = (
        Definition(kind, json.dumps(record(at={"type": one})).encode())
        for one in ("long", {"type": "long", "logicalType": "timestamp-millis"})
    )
    payload = written(record(at={"type": "long"}), {"at": 1500}) if kind == "AVRO" else b'{"at": 1500}'
    moment = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert decode(ValueSchema(timed, {0: plain}), [payload], [version(0)]) == [{"at": moment}]
    assert decode(ValueSchema(plain, {0: timed}), [payload], [version(0)]) == [{"at": 1500}]
    with pytest.raises(SchemaError, match="at was written as int64, and is read as timestamp"):
        decode(ValueSchema(plain), [payload], [None], value_type(timed))  # planned before the newest version


def test_a_json_field_that_the_newest_version_dropped_has_its_own_meaning():
    """The type was planned with it, also within another struct."""
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}
    both = {**inner, "fields": [*inner["fields"], {"name": "gone", "type": millis}]}
    old, new = (Definition("JSON", json.dumps(record(i={"type": one})).encode()) for one in (both, inner))
    found = decode(
        ValueSchema(new, {0: old, 1: new}),
        [b'{"i":{"a":1,"gone":1500}}'] * 2,
        [version(0), version(1)],
        value_type(old),
    )
    moment = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert found == [{"i": {"a": 1, "gone": moment}}, {"i": {"a": 1, "gone": None}}]


def test_a_field_that_the_newest_version_dropped_stays_where_the_type_was_planned_with_it():
    old, new = record("a", "gone"), record("a", more={"type": "string", "default": "none"})
    schema = ValueSchema(avro(new), {0: avro(old), 1: avro(new)})
    values = [written(old, {"a": "x", "gone": "still"}), written(new, {"a": "y", "more": "z"})]
    found = decode(schema, values, [version(0), version(1)], value_type(avro(old)))
    assert found == [{"a": "x", "gone": "still"}, {"a": "y", "gone": None}]


@pytest.mark.parametrize("nulls", [False, True])
def test_ciphertext_is_no_value_of_a_schema(nulls):
    """The bytes happen to be a value of the schema, as ciphertext may."""
    value = written(record("a"), {"a": "x"})
    decoder = ValueDecoder(ValueSchema(avro(record("a")), nulls=nulls), value_type(avro(record("a"))))
    if nulls:
        assert decoder.column([value, value, None], [None] * 3, [False, True, True]).to_pylist() == [
            {"a": "x"},
            None,
            None,
        ]
    else:
        with pytest.raises(SchemaError, match="an entry is encrypted and cannot be decoded"):
            decoder.column([value, value], [None] * 2, [False, True])


@pytest.mark.parametrize("damaged", [b"", b"\xff" * 3])
def test_values_that_are_none(damaged):
    good = written(record("a"), {"a": "x"})
    with pytest.raises(SchemaError, match=r"does not match its AVRO schema: .*; set decodeErrors=null to read null"):
        decode(ValueSchema(avro(record("a"))), [good, damaged])
    assert decode(ValueSchema(avro(record("a")), nulls=True), [good, damaged]) == [{"a": "x"}, None]


def test_a_json_value_of_another_type_is_none():
    schema = Definition("JSON", json.dumps(record(n={"type": "int"})).encode())
    values = [b'{"n": 1}', b'{"n": "many"}', b"[", b'{"n": 99999999999}']
    with pytest.raises(SchemaError):
        decode(ValueSchema(schema), values)
    assert decode(ValueSchema(schema, nulls=True), values) == [{"n": 1}, None, None, None]


def test_protobuf():
    number, text, message = (
        FieldDescriptorProto.TYPE_INT64,
        FieldDescriptorProto.TYPE_STRING,
        FieldDescriptorProto.TYPE_MESSAGE,
    )
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    inner = file.message_type.add(name="Line")
    inner.field.add(name="what", number=1, type=text, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=number, label=1)
    order.field.add(name="lines", number=2, type=message, type_name=".shop.Line", label=3)
    order.field.add(name="main", number=3, type=message, type_name=".shop.Line", label=1)
    order.field.add(name="count", number=4, type=FieldDescriptorProto.TYPE_UINT64, label=1)
    files = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    text_of = json.dumps({"fileDescriptorSet": files, "rootMessageTypeName": "shop.Order"})
    definition = Definition("PROTOBUF_NATIVE", text_of.encode())
    assert spark_name(value_type(definition)) == (
        "struct<id:bigint,lines:array<struct<what:string>>,main:struct<what:string>,count:decimal(20,0)>"
    )
    made = message_class(definition.text)
    value = made(id=5, lines=[{"what": "a"}, {"what": "b"}], count=1 << 63)
    assert decode(ValueSchema(definition), [value.SerializeToString()]) == [
        {"id": 5, "lines": [{"what": "a"}, {"what": "b"}], "main": None, "count": Decimal(1 << 63)}
    ]


def test_a_protobuf_map_is_in_the_order_of_its_keys():
    """Protobuf's order differs in each process, and a task that runs again gives the same rows."""
    file = FileDescriptorProto(name="map.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FieldDescriptorProto.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=FieldDescriptorProto.TYPE_INT64, label=1)
    message = FieldDescriptorProto.TYPE_MESSAGE
    order.field.add(name="tags", number=1, type=message, type_name=".shop.Order.TagsEntry", label=3)
    files = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    definition = Definition(
        "PROTOBUF_NATIVE", json.dumps({"fileDescriptorSet": files, "rootMessageTypeName": "shop.Order"}).encode()
    )
    tags = {f"key{number}": number for number in range(64)}
    value = message_class(definition.text)(tags=tags).SerializeToString()
    assert decode(ValueSchema(definition), [value]) == [{"tags": sorted(tags.items())}]


def test_names_of_types_have_namespaces():
    """By Avro's rules a name without dots is in the namespace around it."""
    line = {"type": "record", "name": "Line", "fields": [{"name": "what", "type": "string"}]}
    other = {"type": "record", "name": "Line", "namespace": "b", "fields": [{"name": "n", "type": "int"}]}
    given = record(first={"type": line}, near={"type": "Line"}, far={"type": "a.Outer$.Line"}, b={"type": other})
    given["fields"] += [{"name": "again", "type": ["null", "b.Line"]}]
    definition = avro({**given, "namespace": "a.Outer$"})
    assert spark_name(value_type(definition)) == (
        "struct<first:struct<what:string>,near:struct<what:string>,far:struct<what:string>,b:struct<n:int>,again:struct<n:int>>"
    )
    value = {name: {"what": name} for name in ("first", "near", "far")} | {"b": {"n": 1}, "again": {"n": 2}}
    found = decode(ValueSchema(definition), [written(json.loads(definition.text), value)])
    assert found == [value]


def doubling(levels):
    """Each type has the one before it twice: as many fields as 2 ** levels."""
    inner = "int"
    for level in range(levels):
        first = {"name": "a", "type": inner}
        fields = [first, {"name": "b", "type": f"T{level - 1}" if level else "int"}]
        inner = {"type": "record", "name": f"T{level}", "fields": fields}
    return inner


def test_a_definition_that_grows_without_bound_is_refused():
    assert value_type(avro(doubling(12))).num_fields == 2  # 8,190 fields
    for levels in (13, 60):
        with pytest.raises(SchemaError, match="more than 10,000 fields"):
            value_type(avro(doubling(levels)))


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        (Definition("PROTOBUF", b"{}"), "unusable PROTOBUF schema: '__PARSING_INFO__'"),
        (listed(("g", 1, "GROUP", "LABEL_OPTIONAL")), "field g is a group"),
        (
            listed(("a", 1, "INT32", "LABEL_OPTIONAL"), ("b", 1, "INT32", "LABEL_OPTIONAL")),
            "unusable PROTOBUF schema: ",
        ),
        (avro(record(n={"type": ["null", "R"]})), "type R contains itself"),
        (avro(record(n={"type": "Nowhere"})), "type 'Nowhere' is not defined"),
        (avro(record()), "has no fields"),
        (Definition("AVRO", b"{"), "unusable AVRO schema: "),
        (avro(5), "5 is not an Avro definition"),
        (avro({"type": "record", "fields": []}), "is not an Avro definition"),
        (avro("null"), "type null is not supported"),
        (Definition("KEYVALUE"), "values of a KEYVALUE schema cannot be decoded; set valueSchema=raw to read bytes"),
        (Definition("PROTOBUF_NATIVE", b"{}"), "unusable PROTOBUF_NATIVE schema: "),
    ],
)
def test_schemas_that_cannot_be_used_say_why(definition, told):
    with pytest.raises(SchemaError) as caught:
        value_type(definition)
    assert told in str(caught.value)


def test_a_definition_in_an_option():
    assert parse_definition('{"type": "avro", "schema": "x"}') == Definition("AVRO", b"x")
    assert parse_definition('{"type": "PROTOBUFNATIVE", "schema": {"a": 1}}') == Definition(
        "PROTOBUF_NATIVE", b'{"a": 1}'
    )
    assert parse_definition('{"type": "STRING"}') == Definition("STRING")
    with pytest.raises(SchemaError, match="type 'XML' must be one of AVRO, JSON"):
        parse_definition('{"type": "XML"}')


def test_types_as_spark_tells_them():
    types = pytest.importorskip("pyspark.sql.pandas.types")
    kind = value_type(avro(ORDER))
    told = types.from_arrow_type(kind).jsonValue()
    assert spark_name(arrow_type(told)) == IN_SPARK
    assert arrow_type({"type": "array", "elementType": "integer", "containsNull": True}) == pa.list_(pa.int32())
    with pytest.raises(TypeNameError, match="interval"):
        arrow_type("interval")
    assert spark_name(pa.struct([("a b", pa.int32())])) == "struct<`a b`:int>"
