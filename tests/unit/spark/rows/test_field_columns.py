"""The option `fieldColumns`: fields of decoded values as columns."""

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType
from readonly_spark.export.errors import ExportError
from readonly_spark.export.settings import ExportSettings
from readonly_spark.options import OptionError, parse_options
from readonly_spark.rows.field_columns import FieldColumnsError, field_types, with_field_columns
from readonly_spark.source import _requested

VALUE = pa.struct([("id", pa.int64()), ("a b", pa.list_(pa.string())), ("topic", pa.string())])
OPTIONS = parse_options(
    {"metadataStoreUrl": "zk:h:1", "topic": "t", "valueSchema": "auto", "fieldColumns": "true"}, streaming=False
)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (VALUE, [("id", "bigint"), ("a b", "array<string>"), ("topic", "string")]),
        (pa.string(), "requires values with fields; those of the topic are string"),
        (pa.struct([("__Topic", pa.string())]), "the field __Topic has the name of the column __topic"),
        (pa.struct([("id", pa.string()), ("ID", pa.string())]), "the field ID has the name of the column id"),
    ],
)
def test_fields_are_columns_unless_their_names_are_taken(kind, found):
    if isinstance(found, list):
        assert field_types(kind, ["topic", "key"]) == found
        return
    with pytest.raises(FieldColumnsError, match=found):
        field_types(kind, ["topic", "key"])


def requested(*fields):
    schema = StructType()
    for name, kind in fields:
        schema.add(name, kind)
    return _requested(schema, OPTIONS)


def test_columns_are_returned_as_they_are_requested():
    schema, names = requested(("__topic", StringType()), ("topic", StringType()), ("id", LongType()))
    assert names == ("__topic", "topic", "id")
    assert schema.names == ["topic", "value"]
    read = pa.RecordBatch.from_pydict({"topic": ["t", "t"], "value": [{"topic": "x", "id": 1}, None]}, schema=schema)
    flat = with_field_columns(read, names)
    assert flat.to_pylist() == [{"__topic": "t", "topic": "x", "id": 1}, {"__topic": "t", "topic": None, "id": None}]
    assert flat.schema.types == [pa.string(), pa.string(), pa.int64()]


def test_values_are_not_decoded_without_one_of_their_fields():
    schema, names = requested(("__partition", IntegerType()))
    assert schema.names == ["partition"]
    assert with_field_columns(pa.RecordBatch.from_pydict({"partition": [3]}, schema=schema), names).num_rows == 1
    schema, names = requested()
    rows = pa.RecordBatch.from_arrays([], names=[])
    assert with_field_columns(rows, names) is rows


def test_another_type_of_a_column_is_refused():
    with pytest.raises(OptionError, match="column topic has type string, not int"):
        requested(("__topic", IntegerType()))


def test_an_export_keeps_the_column_value():
    source = {"metadataStoreUrl": "zk:h:1", "topic": "t", "valueSchema": "auto", "fieldColumns": "true"}
    with pytest.raises(ExportError, match="--option fieldColumns"):
        ExportSettings(source=source, to="/t", checkpoint="/c")
