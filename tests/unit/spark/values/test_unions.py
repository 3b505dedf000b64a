"""Avro unions of several types, as structs with a field for each, as Spark's own Avro functions give them."""

import pytest
from readonly_spark.values.schema import Definition, SchemaError, ValueSchema, value_type
from readonly_spark.values.type_names import spark_name

from tests.unit.spark.values.test_values import avro, decode, version, written

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "ok", "type": "boolean"}]}
UNIONS = {
    "type": "record",
    "name": "R",
    "namespace": "a.b",
    "fields": [
        {"name": "one", "type": ["null", "string", "int", INNER], "default": None},
        {"name": "many", "type": {"type": "array", "items": ["string", "long", "a.b.Inner"]}},
        {"name": "by_name", "type": {"type": "map", "values": ["null", "Inner", {"type": "array", "items": "int"}]}},
        {"name": "wide", "type": ["int", "null", "long"]},
        {"name": "real", "type": ["float", "double"]},
    ],
}
IN_SPARK = (
    "struct<one:struct<member0:string,member1:int,member2:struct<ok:boolean>>,"
    "many:array<struct<member0:string,member1:bigint,member2:struct<ok:boolean>>>,"
    "by_name:map<string,struct<member0:struct<ok:boolean>,member1:array<int>>>,wide:bigint,real:double>"
)


def test_members_are_fields():
    schema = ValueSchema(avro(UNIONS))
    assert spark_name(value_type(schema.newest)) == IN_SPARK
    value = {
        "one": {"ok": True},
        "many": ["x", 1 << 40, {"ok": False}],
        "by_name": {"a": {"ok": True}, "b": [1, 2], "c": None},
        "wide": 1 << 40,
        "real": 0.5,
    }
    (found, none) = decode(schema, [written(UNIONS, value), written(UNIONS, {**value, "one": None, "many": []})])
    nothing = {"member0": None, "member1": None, "member2": None}
    assert found == {
        "one": {**nothing, "member2": {"ok": True}},
        "many": [{**nothing, "member0": "x"}, {**nothing, "member1": 1 << 40}, {**nothing, "member2": {"ok": False}}],
        "by_name": [
            ("a", {"member0": {"ok": True}, "member1": None}),
            ("b", {"member0": None, "member1": [1, 2]}),
            ("c", None),
        ],
        "wide": 1 << 40,
        "real": 0.5,
    }
    assert (none["one"], none["many"]) == (None, [])


def test_a_union_alone():
    schema = ValueSchema(avro(["string", "bytes", "boolean"]))
    values = [written(["string", "bytes", "boolean"], one) for one in ("a", b"a", True)]
    assert decode(schema, values) == [
        {"member0": "a", "member1": None, "member2": None},
        {"member0": None, "member1": b"a", "member2": None},
        {"member0": None, "member1": None, "member2": True},
    ]


def test_a_member_that_a_later_version_adds():
    old = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["string", "int"]}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["string", "int", "boolean"]}]}
    schema = ValueSchema(avro(new), {0: avro(old), 1: avro(new)})
    values = [written(old, {"u": 5}), written(new, {"u": True})]
    assert decode(schema, values, [version(0), version(1)]) == [
        {"u": {"member0": None, "member1": 5, "member2": None}},
        {"u": {"member0": None, "member1": None, "member2": True}},
    ]


def test_members_that_a_later_version_orders_differently_are_not_mixed_up():
    old = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["string", "int"]}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "string"]}]}
    schema = ValueSchema(avro(new), {0: avro(old), 1: avro(new)})
    assert decode(schema, [written(old, {"u": 5})], [version(0)]) == [{"u": {"member0": 5, "member1": None}}]


def test_json_does_not_tell_the_members_of_a_union():
    with pytest.raises(SchemaError, match="a union of 2 types is not supported"):
        value_type(Definition("JSON", avro(["string", "int"]).text))


def test_unions_in_records_whose_names_are_alike():
    def named(name, namespace):
        return {
            "type": "record",
            "name": name,
            "namespace": namespace,
            "fields": [{"name": "u", "type": ["string", "int"]}],
        }

    both = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "x", "type": named("b_c", "a")}, {"name": "y", "type": named("c", "a_b")}],
    }
    assert decode(ValueSchema(avro(both)), [written(both, {"x": {"u": 1}, "y": {"u": "z"}})]) == [
        {"x": {"u": {"member0": None, "member1": 1}}, "y": {"u": {"member0": "z", "member1": None}}}
    ]
