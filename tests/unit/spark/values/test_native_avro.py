"""Avro in C gives the columns and errors that Python's decoder gives, for any schema and any bytes."""

import gc
import io
import json
import re
import resource
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine import native
from readonly_spark.values import native_avro
from readonly_spark.values.column_readers import column_reader
from readonly_spark.values.decoder import MAX_VERSIONS, ValueDecoder
from readonly_spark.values.key_value import KEY_VALUE, KeyValueSchema, Part, format_key_value, join_pair
from readonly_spark.values.native_avro import MAX_DEPTH, MAX_NODES, compiled
from readonly_spark.values.schema import Definition, SchemaError, ValueSchema, value_type

MODULE = native.load("readonly_spark.values._avro")
pytestmark = pytest.mark.skipif(MODULE is None, reason="the module in C was not built, or is not wanted")

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
LEAVES = {
    "boolean": st.booleans(),
    "int": INT32,
    "long": INT64,
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
}
LOGICAL = (
    ({"type": "int", "logicalType": "date"}, st.integers(-719_200, 2_932_900)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-62_135_600_000_000, 253_402_300_900_000)),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.integers(-63_000_000_000_000_000, 2**62)),
    ({"type": "int", "logicalType": "time-millis"}, INT32),
    ({"type": "string", "logicalType": "uuid"}, st.text(max_size=4)),
)


class Kind(NamedTuple):
    """An Avro type, and values for a writer that takes logical types for their base types."""

    definition: Any
    values: st.SearchStrategy[Any]


@st.composite
def kinds(draw: Callable[..., Any], name: str = "r", depth: int = 3, *, maps: bool = False) -> Kind:
    choices = ["leaf", "logical", "decimal", "enum", "fixed", "option"]
    if depth:
        choices += ["record", "record", "array", *(["map"] if maps else [])]
    kind = draw(st.sampled_from(choices))
    if kind == "leaf":
        return Kind(*draw(st.sampled_from(sorted(LEAVES.items(), key=str))))
    if kind == "logical":
        return Kind(*draw(st.sampled_from(LOGICAL)))
    if kind == "decimal":
        size = draw(st.integers(1, 18))
        based = {"type": "bytes"} if draw(st.booleans()) else {"type": "fixed", "name": f"{name}_d", "size": size}
        digits = len(str(2 ** (8 * size - 1) - 1)) - 1
        precision = draw(st.integers(1, 38 if "size" not in based else min(digits, 38)))
        logical = {"logicalType": "decimal", "precision": precision, "scale": draw(st.integers(0, precision))}
        stored = st.binary(min_size=size if "size" in based else 0, max_size=size)
        return Kind(based | logical, stored)
    if kind == "enum":
        symbols = [f"S{number}" for number in range(draw(st.integers(1, 3)))]
        return Kind({"type": "enum", "name": f"{name}_e", "symbols": symbols}, st.sampled_from(symbols))
    if kind == "fixed":
        size = draw(st.integers(1, 3))  # items without bytes: test_avro_limits.py
        return Kind({"type": "fixed", "name": f"{name}_x", "size": size}, st.binary(min_size=size, max_size=size))
    if kind == "option":
        inner = draw(kinds(f"{name}_o", max(depth - 1, 0), maps=maps))
        if isinstance(inner.definition, list):
            return inner
        union = ["null", inner.definition] if draw(st.booleans()) else [inner.definition, "null"]
        return Kind(union, st.none() | inner.values)
    if kind == "array":
        inner = draw(kinds(f"{name}_i", depth - 1, maps=maps))
        return Kind({"type": "array", "items": inner.definition}, st.lists(inner.values, max_size=4))
    if kind == "map":
        inner = draw(kinds(f"{name}_v", depth - 1, maps=maps))
        return Kind(
            {"type": "map", "values": inner.definition}, st.dictionaries(st.text(max_size=3), inner.values, max_size=3)
        )
    fields = {
        f"f{number}": draw(kinds(f"{name}_{number}", depth - 1, maps=maps)) for number in range(draw(st.integers(1, 4)))
    }
    definition = {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": one.definition} for field, one in fields.items()],
    }
    return Kind(definition, st.fixed_dictionaries({field: one.values for field, one in fields.items()}))


def plain(definition: Any) -> Any:
    """The definition without logical types, so that a writer takes any value of the base type."""
    if isinstance(definition, list):
        return [plain(one) for one in definition]
    if isinstance(definition, dict):
        return {key: plain(value) for key, value in definition.items() if key not in {"logicalType", "scale"}}
    return definition


def written(definition: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(plain(definition)), value)
    return file.getvalue()


def avro(definition: Any) -> Definition:
    return Definition("AVRO", json.dumps(definition).encode())


@st.composite
def payloads_of(draw: Callable[..., Any], kind: Kind) -> list[bytes | None]:
    """Valid payloads most of the time; else some that are cut, longer, changed, or anything."""
    valid = kind.values.map(lambda value: written(kind.definition, value))
    if draw(st.booleans()):
        return draw(st.lists(st.none() | valid, min_size=1, max_size=6))
    cut = valid.map(lambda found: found[:-1])
    longer = st.builds(bytes.__add__, valid, st.binary(max_size=4))
    changed = st.builds(
        lambda found, at, by: bytes(byte ^ (by if index == at % len(found) else 0) for index, byte in enumerate(found)),
        valid,
        st.integers(0, 40),
        st.integers(1, 255),
    )
    return draw(st.lists(st.none() | valid | cut | longer | changed | st.binary(max_size=12), min_size=1, max_size=6))


@st.composite
def later(draw: Callable[..., Any], definition: Any) -> Any:
    """A later version of a definition: fields added, removed, reordered, wider or nullable."""
    if isinstance(definition, list):
        return [draw(later(one)) for one in definition]
    if definition in ("int", "float") and draw(st.booleans()):
        return {"int": "long", "float": "double"}[definition]
    if not isinstance(definition, dict):
        return definition
    if definition["type"] == "array":
        return definition | {"items": draw(later(definition["items"]))}
    if definition["type"] != "record":
        return definition
    fields = []
    for field in definition["fields"]:
        kind = draw(later(field["type"]))
        if not isinstance(kind, list) and draw(st.booleans()):
            kind = ["null", kind]
        fields.append({"name": field["name"], "type": kind})
    fields = [field for field in fields if draw(st.integers(0, 3))]
    default: dict[str, Any] = draw(st.sampled_from([{"default": None}, {"default": None}, {"default": 7}, {}]))
    if not fields or draw(st.booleans()):
        new = ["int", "null"] if default.get("default") == 7 else ["null", "int"]
        fields.append({"name": "added", "type": new, **default})
    return definition | {"fields": draw(st.permutations(fields))}


def pruned(draw: Callable[..., Any], kind: pa.DataType) -> pa.DataType:
    """The type with some of its fields, as Spark asks for, and one that the schema does not have."""
    if not pa.types.is_struct(kind):
        return kind
    fields = [kind.field(at) for at in range(kind.num_fields)]
    fields = [pa.field(one.name, pruned(draw, one.type)) for one in fields if draw(st.integers(0, 3))]
    if not fields or not draw(st.integers(0, 3)):
        fields.append(pa.field("absent", pa.list_(pa.int32())))
    return pa.struct(fields)


def result(call: Callable[[], pa.Array]) -> object:
    try:
        found = call()
    except SchemaError as error:
        return re.sub(r"0x[0-9a-f]+", "", str(error))  # the address of a file
    found.validate(full=True)
    return repr(found.to_pylist()), found.null_count, found.type


def check_same(
    schema: ValueSchema, target: pa.DataType, payloads: Sequence[bytes | None], versions: Sequence[Any]
) -> None:
    array, named = pa.array(payloads, pa.binary()), pa.array(versions, pa.binary())
    expected = result(lambda: ValueDecoder(schema, target).column(payloads, versions))
    assert result(lambda: ValueDecoder(schema, target).decode(array, named)) == expected
    longer = pa.concat_arrays([pa.array([b"another"], pa.binary()), array])[1:]
    assert result(lambda: ValueDecoder(schema, target).decode(longer, named)) == expected


@given(st.data(), st.booleans())
def test_any_payload_of_any_schema(data, nulls) -> None:
    kind = data.draw(kinds(maps=True))
    definition = avro(kind.definition)
    target = pruned(data.draw, value_type(definition))
    payloads = data.draw(payloads_of(kind))
    check_same(ValueSchema(definition, nulls=nulls), target, payloads, [None] * len(payloads))


@given(st.data(), st.booleans())
def test_versions_of_a_schema(data, nulls) -> None:
    kind = data.draw(kinds())
    newest = avro(data.draw(later(kind.definition)))
    definition = avro(kind.definition)
    try:
        target = pruned(data.draw, value_type(data.draw(st.sampled_from([newest, definition]))))
    except SchemaError:
        return
    payloads = data.draw(payloads_of(kind))
    versions = data.draw(st.lists(st.sampled_from([b"0", b"1", None]), min_size=len(payloads), max_size=len(payloads)))
    named = [None if one is None else int(one).to_bytes(8, "big") for one in versions]
    check_same(ValueSchema(newest, {0: definition, 1: newest}, nulls=nulls), target, payloads, named)


@given(st.data())
def test_valid_payloads_are_decoded_in_c(data) -> None:
    kind = data.draw(kinds())
    target = value_type(avro(kind.definition))
    text = json.dumps(kind.definition).encode()
    values = data.draw(st.lists(kind.values, min_size=1, max_size=5))
    array = pa.array([written(kind.definition, value) for value in values], pa.binary())
    decode = compiled(text, text, target)
    assert decode is not None
    try:
        expected = ValueDecoder(ValueSchema(avro(kind.definition)), target).column(
            array.to_pylist(), [None] * len(array)
        )
    except SchemaError:
        return  # a time before the year 1, or a decimal of more digits
    found = decode(array)
    if found is None:  # an item without bytes, or a decimal that Python rounds
        assert any(word in str(kind.definition) for word in ("fixed", "decimal"))
    else:
        assert repr(found.to_pylist()) == repr(expected.to_pylist())


LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "cents", "type": "int"}, {"name": "parent", "type": ["null", "Money"]}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
    ],
}
MONEY = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "int"}]}


def test_names_of_types_and_nested_records():
    order = json.loads(json.dumps(ORDER))
    order["fields"].insert(0, {"name": "total", "type": MONEY})
    values = [
        {"total": {"cents": 3}, "id": 1, "name": None, "lines": []},
        {"total": {"cents": -3}, "id": -(2**63), "name": "ä\0€😀", "lines": [
            {"cents": 5, "parent": None}, {"cents": 6, "parent": {"cents": 7}}]},
    ]  # fmt: skip
    text = json.dumps(order).encode()
    decode = compiled(text, text, value_type(avro(order)))
    assert decode is not None
    found = decode(pa.array([written(order, values[0]), None, written(order, values[1])], pa.binary()))
    assert found is not None
    assert found.to_pylist() == [values[0], None, values[1]]


def test_several_versions_in_one_batch_keep_their_order():
    one = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    two = {"type": "record", "name": "r", "fields": [
        {"name": "b", "type": ["null", "string"], "default": None}, {"name": "a", "type": "long"}]}  # fmt: skip
    schema = ValueSchema(avro(two), {0: avro(one), 1: avro(two)})
    decoder = ValueDecoder(schema, value_type(avro(two)))
    versions = [number % 2 for number in range(9)]
    payloads = [written(two, {"a": n, "b": str(n)}) if v else written(one, {"a": n}) for n, v in enumerate(versions)]
    named = pa.array([v.to_bytes(8, "big") for v in versions], pa.binary())
    found = decoder._whole(pa.array(payloads, pa.binary()), named, None)
    assert found is not None
    assert found.to_pylist() == [{"b": str(n) if v else None, "a": n} for n, v in enumerate(versions)]


@pytest.mark.parametrize(("count", "whole"), [(MAX_VERSIONS, True), (MAX_VERSIONS + 1, False)])
def test_the_most_versions_in_one_batch(count, whole):
    one = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    schema = ValueSchema(avro(one), dict.fromkeys(range(count), avro(one)))
    decoder = ValueDecoder(schema, value_type(avro(one)))
    payloads = pa.array([written(one, {"a": n}) for n in range(count)], pa.binary())
    versions = pa.array([n.to_bytes(8, "big") for n in range(count)], pa.binary())
    assert (decoder._whole(payloads, versions, None) is not None) == whole
    assert decoder.decode(payloads, versions).to_pylist() == [{"a": n} for n in range(count)]


def test_a_deleted_version_of_a_null_payload_is_not_an_error():
    one = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    decoder = ValueDecoder(ValueSchema(avro(one), {0: avro(one)}), value_type(avro(one)))
    versions = pa.array([bytes(8), (9).to_bytes(8, "big")], pa.binary())
    assert decoder.decode(pa.array([b"\2", None], pa.binary()), versions).to_pylist() == [{"a": 1}, None]
    with pytest.raises(SchemaError, match="version 9, which was deleted"):
        decoder.decode(pa.array([b"\2", b"\2"], pa.binary()), versions)


def test_texts_and_bytes_are_arrays_at_once():
    array = pa.array(["ä".encode(), None, b""], pa.binary())
    texts = column_reader(Definition("STRING"), Definition("STRING"), pa.string())
    assert texts is not None
    assert texts(array, None).to_pylist() == ["ä", None, ""]  # type: ignore[union-attr]
    assert texts(pa.array([b"\xff"], pa.binary()), None) is None
    stored = column_reader(Definition("BYTES"), Definition("BYTES"), pa.binary())
    assert stored is not None
    assert stored(array, None) is array
    decoder = ValueDecoder(ValueSchema(Definition("STRING"), nulls=True), pa.string())
    assert decoder.decode(pa.array([b"\xff", b"a"], pa.binary()), pa.nulls(2, pa.binary())).to_pylist() == [None, "a"]


def test_a_null_of_a_writer_whose_field_was_dropped():
    """It ended the query: found by the test of versions."""
    one = [{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}, "null"]
    two = [{"type": "record", "name": "r", "fields": [{"name": "b", "type": ["null", "int"], "default": None}]}, "null"]
    decoder = ValueDecoder(ValueSchema(avro(two), {0: avro(one)}), value_type(avro(one)))
    found = decoder.decode(pa.array([b"\2", b"\0\6"], pa.binary()), pa.array([bytes(8)] * 2, pa.binary()))
    assert found.to_pylist() == [None, {"a": 3}]


def key_value(key: Part, value: Part, *, separated: bool) -> Definition:
    return Definition(KEY_VALUE, *format_key_value(KeyValueSchema(key, value, separated)))


@given(st.data(), st.booleans(), st.booleans())
def test_pairs_of_any_schema(data, separated, nulls) -> None:
    key, value = data.draw(kinds("k", 1)), data.draw(kinds("v", 2))
    one, two = (Part("AVRO", json.dumps(kind.definition).encode(), {}) for kind in (key, value))
    if data.draw(st.booleans()):
        one = Part("STRING", b"", {})
    definition = key_value(one, two, separated=separated)
    whole = value_type(definition)
    target = pa.struct([whole.field(at) for at in data.draw(st.sampled_from([(0, 1), (1, 0), (0,), (1,)]))])
    payloads, keys = data.draw(payloads_of(value)), data.draw(payloads_of(key))
    keys = (keys * len(payloads))[: len(payloads)]
    if not separated:
        payloads = [join_pair(*pair) for pair in zip(keys, payloads, strict=True)]
        payloads[0] = data.draw(st.sampled_from([payloads[0], None, b"", payloads[0] + b"x"]))
    schema = ValueSchema(definition, nulls=nulls)
    named = [None] * len(payloads)
    expected = result(lambda: ValueDecoder(schema, target).column(payloads, named, keys=keys))
    arrays = pa.array(payloads, pa.binary()), pa.nulls(len(payloads), pa.binary()), None, pa.array(keys, pa.binary())
    assert result(lambda: ValueDecoder(schema, target).decode(*arrays)) == expected


@pytest.mark.parametrize("separated", [True, False])
def test_pairs_are_arrays_at_once(separated):
    part = Part("AVRO", json.dumps(MONEY).encode(), {})
    definition = key_value(Part("STRING", b"", {}), part, separated=separated)
    target = value_type(definition)
    values = [written(MONEY, {"cents": 7}), None]
    keys = [b"a", b"b"]
    payloads = values if separated else [join_pair(*pair) for pair in zip(keys, values, strict=True)]
    read = column_reader(definition, definition, target)
    assert read is not None
    found = read(pa.array([*payloads, None], pa.binary()), pa.array([*keys, None], pa.binary()))
    assert found is not None
    assert found.to_pylist() == [{"key": "a", "value": {"cents": 7}}, {"key": "b", "value": None}, None]
    assert column_reader(definition, definition, pa.struct([target.field(1)])) is not None
    other = key_value(Part("INT32", b"", {}), part, separated=separated)
    assert column_reader(other, other, value_type(other)) is None


@pytest.mark.parametrize(
    "block", [b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\xfe\xff\xff\xff\x0f", b"\x08\x02\x02\x02"]
)
def test_more_items_than_bytes_end_at_once(block):
    """A count of 2**31 or 2**62 items, or of one more than there are bytes."""
    text = json.dumps({"type": "array", "items": "int"}).encode()
    decode = compiled(text, text, pa.list_(pa.field("element", pa.int32())))
    assert decode is not None
    assert decode(pa.array([block], pa.binary())) is None


def nested(depth: int) -> Any:
    return {"type": "array", "items": nested(depth - 1)} if depth else "int"


@pytest.mark.parametrize(("depth", "there"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_the_deepest_type(depth, there):
    text = json.dumps(nested(depth)).encode()
    assert (compiled(text, text, value_type(avro(nested(depth)))) is not None) == there


@pytest.mark.parametrize(("fields", "there"), [(MAX_NODES - 1, True), (MAX_NODES, False)])
def test_the_largest_program(fields, there):
    wide = {"type": "record", "name": "r", "fields": [{"name": f"f{n}", "type": "int"} for n in range(fields)]}
    text = json.dumps(wide).encode()
    assert (compiled(text, text, pa.struct([pa.field("f0", pa.int32())])) is not None) == there


def test_a_recursive_type_that_nobody_reads_has_no_program():
    one = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "int"}, {"name": "next", "type": ["null", "r"]}],
    }
    two = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    assert compiled(json.dumps(one).encode(), json.dumps(two).encode(), value_type(avro(two))) is None


@pytest.mark.nightly
def test_nulls_that_fill_the_memory_are_refused_with_their_bound():
    """A null of an array's records is a byte of the payload, and a null in each of thousands of columns."""
    fields = [{"name": f"f{n}", "type": "boolean"} for n in range(MAX_NODES - 10)]
    wide = {"type": "array", "items": ["null", {"type": "record", "name": "r", "fields": fields}]}
    schema = ValueSchema(avro(wide))
    decoder = ValueDecoder(schema, value_type(avro(wide)))

    def decoded(nulls: int) -> pa.Array:
        items = bytes(nulls)
        count = io.BytesIO()
        fastavro.schemaless_writer(count, "long", nulls)
        return decoder.decode(pa.array([count.getvalue() + items + b"\0"], pa.binary()), pa.nulls(1, pa.binary()))

    assert len(decoded(100)[0]) == 100
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SchemaError, match=r"more than 134,217,728 nulls; set a smaller batchBytes"):
        decoded(1_000_000)  # of 10 GB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_500_000


def test_without_the_module_there_is_no_program(monkeypatch):
    monkeypatch.setattr(native_avro, "_NATIVE", None)
    assert compiled(b'"int"', b'"int"', pa.int32()) is None


COLUMN = [(1, 1)]
NODE = [(1, 0, 1, 0, 0)]


@pytest.mark.parametrize(
    ("nodes", "columns", "symbols"),
    [
        ([], COLUMN, ()),
        (NODE, [], ()),
        ([(99, 0, 1, 0, 0)], COLUMN, ()),
        ([(1, 1, 1, 0, 0)], COLUMN, ()),
        ([(1, 0, 2, 0, 0)], COLUMN, ()),
        ([(1, 0, 1, -1, 0)], COLUMN, ()),
        ([(8, 0, 1, 0, 2)], [(5, 1)], (b"a",)),
        ([(10, 0, 1, 0, 0)], [(8, 2), (1, 2)], ()),
        ([(10, 0, 2, 0, 0), (1, -1, 2, 0, 0)], COLUMN, ()),
        ([(15, -1, 1, 0, 0)], COLUMN, ()),
        (NODE, [(9, 1)], ()),
        (NODE, [(8, 1)], ()),
        (NODE, [(1, 2)], ()),
    ],
)
def test_a_program_that_cannot_be_is_refused(nodes, columns, symbols):
    assert MODULE is not None
    with pytest.raises(ValueError, match=r"cannot be|no nodes or columns"):
        MODULE.Decoder(nodes, columns, symbols)


@pytest.mark.parametrize(
    ("nodes", "columns"), [([(1, 0, 1, 0, 0)], [(5, 1)]), ([(6, 0, 1, 0, 0)], [(1, 1)]), ([(1, -1, 1, 0, 0)], [(1, 1)])]
)
def test_a_column_of_another_kind_is_an_error_and_not_a_wrong_column(nodes, columns):
    assert MODULE is not None
    decoder = MODULE.Decoder(nodes, columns, ())
    _, offsets, data = pa.array([b"\2a"], pa.binary()).buffers()
    with pytest.raises(SystemError):
        decoder.decode(offsets, data, None, 0, 1)


@pytest.mark.parametrize(
    ("offsets", "data", "valid", "first", "rows"),
    [
        (b"", b"", None, 0, 0),
        (bytes(8), b"", None, 0, 2),
        (bytes(8), b"", None, -1, 1),
        (bytes(8), b"", b"", 0, 1),
        (b"\0\0\0\0\2\0\0\0", b"a", None, 0, 1),
        (b"\2\0\0\0\0\0\0\0", b"abc", None, 0, 1),
    ],
)
def test_buffers_that_do_not_fit_are_refused(offsets, data, valid, first, rows):
    assert MODULE is not None
    with pytest.raises(ValueError, match=r"shorter|outside"):
        MODULE.Decoder(NODE, COLUMN, ()).decode(offsets, data, valid, first, rows)


def test_memory_comes_back():
    order = json.loads(json.dumps(ORDER))
    order["fields"].insert(0, {"name": "total", "type": MONEY})
    value = {"total": {"cents": 3}, "id": 1, "name": "ä" * 500, "lines": [{"cents": 5, "parent": None}] * 50}
    text = json.dumps(order).encode()
    decode = compiled(text, text, value_type(avro(order)))
    assert decode is not None
    good = pa.array([written(order, value)] * 2000, pa.binary())
    bad = pa.concat_arrays([good, pa.array([b"\xff"], pa.binary())])

    def work() -> int:
        for _ in range(10):
            assert decode(good) is not None
            assert decode(bad) is None
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    work()
    before = work()
    for _ in range(5):
        after = work()
    assert after - before < 20_000, "kB"
