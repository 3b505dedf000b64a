"""The type of values of several topics."""

import pyarrow as pa
import pytest
from readonly_spark.values.merged import DifferentTypesError, merged_type

OLD = pa.struct([("id", pa.int32()), ("line", pa.struct([("what", pa.string())]))])
NEW = pa.struct(
    [("id", pa.int64()), ("line", pa.struct([("what", pa.string()), ("n", pa.int32())])), ("at", pa.date32())]
)


@pytest.mark.parametrize("kind", [pa.string(), OLD, pa.list_(pa.int8()), pa.map_(pa.string(), pa.float64())])
def test_one_type_is_itself(kind):
    assert merged_type({"a": kind}) == merged_type({"a": kind, "b": kind}) == kind


def test_a_struct_has_the_fields_of_all_and_the_widest_numbers():
    assert merged_type({"a": OLD, "b": NEW}) == NEW
    assert merged_type({"b": NEW, "a": OLD}) == NEW
    other = pa.struct([("line", pa.struct([("x", pa.bool_())])), ("z", pa.float32())])
    assert str(merged_type({"a": OLD, "b": other})) == (
        "struct<id: int32, line: struct<what: string, x: bool>, z: float>"
    )
    assert merged_type({"a": pa.float32(), "b": pa.float64()}) == pa.float64()


def test_lists_and_maps_are_merged_by_their_items():
    assert merged_type({"a": pa.list_(OLD), "b": pa.list_(NEW)}) == pa.list_(pa.field("element", NEW))
    assert merged_type({"a": pa.map_(pa.string(), OLD), "b": pa.map_(pa.string(), NEW)}) == pa.map_(pa.string(), NEW)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (pa.string(), pa.int32(), "the value is string and int"),
        (OLD, pa.struct([("id", pa.string())]), "id is int and string"),
        (pa.struct([("a", pa.list_(OLD))]), pa.struct([("a", pa.list_(pa.string()))]), "a[] is struct<"),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.bool_()), "{} is tinyint and boolean"),
        (pa.int64(), pa.float64(), "the value is bigint and double"),
    ],
)
def test_types_that_differ_are_named_with_their_topics(one, other, told):
    with pytest.raises(DifferentTypesError) as caught:
        merged_type({"a": one, "b": one, "c": other})
    assert str(caught.value).startswith("a and c have different schemas: ")
    assert told in str(caught.value)
    assert str(caught.value).endswith("; read them separately")
