"""Payloads that would fill the memory or the stack are refused with their limit; all others are read as before."""

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fastavro.utils import generate_many
from hypothesis import given
from hypothesis import strategies as st
from readonly_spark.values import avro_limits, decoder, native_avro
from readonly_spark.values.avro_limits import MAX_NESTED, AvroLimits
from readonly_spark.values.decoder import ValueDecoder
from readonly_spark.values.native_avro import compiled
from readonly_spark.values.schema import Definition, SchemaError, ValueSchema, value_type
from readonly_spark.values.value_limits import MAX_VALUES


def avro(definition: Any) -> Definition:
    return Definition("AVRO", json.dumps(definition).encode())


def record(*fields: tuple[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def long(number: int) -> bytes:
    into = io.BytesIO()
    fastavro.schemaless_writer(into, "long", number)
    return into.getvalue()


def limits(writer: Any, reader: Any = None) -> AvroLimits:
    named: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    parsed = [
        None if one is None else fastavro.parse_schema(one, named_schemas=names)
        for one, names in zip((writer, reader), named, strict=True)
    ]
    return AvroLimits(parsed[0], named[0], parsed[1], None if reader is None else named[1])


def decode(payloads: list[bytes], written: Any, read: Any, *, nulls: bool = False) -> list[Any]:
    """Values of payloads that were written with an older version; `read` is the newest one."""
    schema = ValueSchema(avro(read), {0: avro(written), 1: avro(read)}, nulls=nulls)
    made = ValueDecoder(schema, value_type(avro(read)))
    versions = [(0).to_bytes(8, "big")] * len(payloads)
    return made.decode(pa.array(payloads, pa.binary()), pa.array(versions, pa.binary())).to_pylist()


READ = record(("x", "int"))
EMPTY = {"type": "record", "name": "e", "fields": []}


@pytest.mark.parametrize(
    "items",
    [
        "null",
        EMPTY,
        record(("a", "null"), ("b", EMPTY), name="n"),
        {"type": "fixed", "name": "f", "size": 0},
    ],
)
def test_items_without_bytes(items):
    """fastavro passes each of them, although the field is not read: ten bytes kept it busy for ever."""
    written = record(("x", "int"), ("more", array(items)))
    payload = long(1) + long(1 << 60) + long(0)
    with pytest.raises(SchemaError, match=f"the payload has more than {MAX_VALUES:,} values"):
        decode([payload], written, READ)
    assert decode([payload, long(2) + long(3) + long(0)], written, READ, nulls=True) == [None, {"x": 2}]


def test_arrays_of_items_without_bytes_in_an_array():
    written = record(("x", "int"), ("more", array(array("null"))))
    inner = long(1 << 20) + long(0)
    payload = long(1) + long(1000) + inner * 1000 + long(0)
    with pytest.raises(SchemaError, match="more than"):
        decode([payload], written, READ)
    assert native_avro._NATIVE is None or compiled(avro(written).text, avro(READ).text, value_type(avro(READ))) is None


def test_fields_without_bytes_cost_the_native_decoder_nothing():
    if native_avro._NATIVE is None:
        pytest.skip("the module in C was not built, or is not wanted")
    nulls = [(f"n{number}", "null") for number in range(9_000)]
    written = record(("x", "int"), ("more", array(record(("a", "int"), *nulls, name="i"))))
    read = compiled(avro(written).text, avro(READ).text, value_type(avro(READ)))
    assert read is not None
    found = read(pa.array([long(7) + long(2) + long(1) + long(1) + long(0)], pa.binary()))
    assert found is not None
    assert found.to_pylist() == [{"x": 7}]


LINKED = record(("x", "int"), ("next", ["null", "r"]))


def test_records_within_each_other_at_their_bound():
    """fastavro ends the process at 20,000."""

    def payload(deep: int) -> bytes:
        return (long(5) + long(1)) * (deep - 1) + long(5) + long(0)

    assert decode([payload(MAX_NESTED)], LINKED, READ) == [{"x": 5}]
    for deep in (MAX_NESTED + 1, 20_000, 1_000_000):
        with pytest.raises(SchemaError, match=f"more than {MAX_NESTED} records within each other"):
            decode([payload(deep)], LINKED, READ)
    assert decode([payload(20_000), payload(1)], LINKED, READ, nulls=True) == [None, {"x": 5}]


@pytest.mark.parametrize(
    "written",
    [
        record(("x", "int"), ("next", "r")),
        record(("next", "r"), ("x", "int")),
        record(("x", "int"), ("all", array(record(("again", "i"), name="i")))),
        record(("x", "int"), ("next", record(("back", "r"), name="s"))),
    ],
)
def test_records_that_have_no_end(written):
    for payload in (b"", long(1), b"\2" * 10, b"\2" * 100_000):
        with pytest.raises(SchemaError, match="AVRO schema"):
            decode([payload], written, READ)


def test_trees_that_are_not_read():
    """Recursive types are valid: what is not read may have them."""
    leaf = long(0)
    two = long(2) + leaf + leaf + long(0)
    written = record(("x", "int"), ("tree", record(("below", array("t")), name="t")))
    assert decode([long(9) + two], written, READ) == [{"x": 9}]
    through = record(("x", "int"), ("b", record(("a", ["null", record(("b", "b"), ("y", "int"), name="a")]), name="b")))
    inner = long(1) + (long(0)) + long(4)
    assert decode([long(9) + inner], through, READ) == [{"x": 9}]
    listed = record(
        ("x", "int"),
        ("a", record(("b", record(("a", ["null", "a"]), ("y", "int"), name="b")), name="a")),
        ("all", array("a")),
    )
    one = long(0) + long(3)
    assert decode([long(9) + one + long(2) + one + one + long(0)], listed, READ) == [{"x": 9}]


def added(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Schemas before and after `number` fields came to the items of an array; a map keeps them from the decoder in C."""
    first = record(("a", "int"), name="i")
    later = record(("a", "int"), name="i")
    later["fields"] += [{"name": f"d{one}", "type": ["null", "int"], "default": None} for one in range(number)]
    return tuple(record(("all", array(items)), ("m", {"type": "map", "values": "int"})) for items in (first, later))


def test_defaults_at_their_bound():
    """A field of the newest version is a value in each item of an older payload."""
    written, read = added(1022)
    items = MAX_VALUES // 1024

    def payload(number: int) -> bytes:
        return long(number) + long(1) * number + long(0) + long(0)

    found = limits(written, read)
    assert found.values(payload(100)) < 110_000
    assert found.values(payload(items - 2)) <= MAX_VALUES
    with pytest.raises(ValueError, match="the payload has more than"):
        found.values(payload(items + 1))
    assert len(decode([payload(3)], written, read)[0]["all"][0]) == 1023
    with pytest.raises(SchemaError, match="the payload has more than"):
        decode([payload(items + 1)], written, read)


def test_nulls_of_a_wide_record_are_values():
    wide = record(*((f"f{number}", "int") for number in range(1000)), name="w")
    found = limits(record(("all", array(["null", wide]))))
    with pytest.raises(ValueError, match="the payload has more than"):
        found.values(long(10_000) + bytes(10_000) + b"\0")
    assert found.values(long(100) + bytes(100) + b"\0") > 100_000


def test_a_default_that_is_a_long_text():
    later = record(("a", "int"), name="i")
    later["fields"].append({"name": "b", "type": "string", "default": "x" * 80_000})
    found = limits(array(record(("a", "int"), name="i")), array(later))
    with pytest.raises(ValueError, match="the payload has more than"):
        found.values(long(1000) + long(1) * 1000 + b"\0")


def test_types_that_use_each_other_twice():
    """60 lines of a definition make a type of 2**60 fields."""
    last = record(("a", "null"), name="t0")
    for number in range(1, 60):
        last = record(("a", last), ("b", f"t{number - 1}"), name=f"t{number}")
    written = record(("x", "int"), ("more", last))
    with pytest.raises(SchemaError, match="AVRO schema"):
        decode([long(1)], written, READ)


@pytest.mark.parametrize("payload", [b"", b"\xff" * 20, long(1) + b"\2", long(1) + long(9), long(1) + long(-1)])
def test_damaged_payloads_have_the_error_of_their_schema(payload):
    with pytest.raises(SchemaError, match="does not match its AVRO schema"):
        decode([payload], LINKED, READ)


def test_the_values_of_a_batch_have_a_bound(monkeypatch):
    monkeypatch.setattr(decoder, "MAX_BATCH_VALUES", 1000)
    monkeypatch.setattr(decoder, "PIECE_VALUES", 100)
    numbers = {"type": "map", "values": "int"}
    made = ValueDecoder(ValueSchema(avro(numbers)), value_type(avro(numbers)))
    payload = long(2) + b"\2a" + long(1) + b"\2b" + long(2) + long(0)

    def rows(number: int) -> list[Any]:
        return made.column([payload] * number, [None] * number).to_pylist()

    each = limits(numbers).values(payload)
    assert rows(1000 // each) == [[("a", 1), ("b", 2)]] * (1000 // each)
    with pytest.raises(SchemaError, match=r"more than 1,000 values; set a smaller batchBytes"):
        rows(1000 // each + 1)
    assert rows(3) == [[("a", 1), ("b", 2)]] * 3  # each batch counts anew


KINDS = st.recursive(
    st.sampled_from(["boolean", "int", "long", "float", "double", "string", "bytes", "null"]),
    lambda inner: st.one_of(
        inner.map(array),
        inner.map(lambda values: {"type": "map", "values": values}),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: record(*((f"f{number}", kind) for number, kind in enumerate(kinds)), name=f"r{id(kinds)}")
        ),
        inner.filter(lambda kind: kind != "null").map(lambda kind: ["null", kind]),
    ),
    max_leaves=8,
)


def values_in(found: Any) -> int:
    if isinstance(found, dict):
        return sum(1 + values_in(one) for one in found.values())
    if isinstance(found, list):
        return sum(1 + values_in(one) for one in found)
    return 0


@given(st.data())
def test_any_valid_payload_is_walked_to_its_end(data):
    """The walk reads what fastavro reads, and counts no less."""
    kind = data.draw(KINDS.filter(lambda kind: "[" not in json.dumps(kind)[:1]))
    parsed = fastavro.parse_schema(kind)
    number = data.draw(st.integers(0, 3))

    for value in generate_many(parsed, number):
        into = io.BytesIO()
        fastavro.schemaless_writer(into, parsed, value)
        named: dict[str, Any] = {}
        found = AvroLimits(fastavro.parse_schema(kind, named_schemas=named), named)
        cursor = avro_limits._Cursor(into.getvalue())
        found._root.walk(cursor)
        assert cursor.at == len(into.getvalue())
        assert cursor.nested == 0
        assert values_in(value) <= cursor.values <= max(found.values(into.getvalue()), cursor.values + 1)
