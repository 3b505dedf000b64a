"""Each cell of a table of schemas and values is what Java reads, or a clear error: in C, in Python and in JSON.

`java_cells.json` has the table. It was made once by Avro's Java library and Pulsar's Java client, as its first line says.
"""

import itertools
import json
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from readonly_spark.values import column_readers
from readonly_spark.values.decoder import ValueDecoder
from readonly_spark.values.schema import Definition, SchemaError, ValueSchema, value_type

TABLE = json.loads(Path(__file__).with_name("java_cells.json").read_text())
TYPES = TABLE["types"]
VERSION = (0).to_bytes(8, "big")
REFUSED = {"error": "here"}


def record(kind):
    return {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}


def shown(found, kind):
    """A value of a column, as the table has it."""
    types = pa.types
    if found is None:
        return None
    if types.is_struct(kind):
        members = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
        one_of = "member0" in members
        return {name: shown(found[name], one) for name, one in members.items() if not one_of or found[name] is not None}
    if types.is_list(kind):
        return [shown(one, kind.value_type) for one in found]
    if types.is_map(kind):
        return {"map": {key: shown(one, kind.item_type) for key, one in found}}
    if types.is_decimal(kind):
        return {"decimal": f"{found:f}"}
    if types.is_floating(kind) and not math.isfinite(found):
        return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
    return {"hex": found.hex()} if types.is_binary(kind) else found


def read(kind, writer, reader, payload):
    """The value that C reads, and Python, or an error: both the same."""
    definitions = [Definition(kind, json.dumps(one).encode()) for one in (writer, reader)]
    try:
        target = value_type(definitions[1])
    except SchemaError:
        return REFUSED
    found = []
    for native in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not native:
                patch.setattr(column_readers, "compiled", lambda *_: None)
            decoder = ValueDecoder(ValueSchema(definitions[1], dict(enumerate(definitions))), target)
            try:
                column = decoder.decode(pa.array([payload], pa.binary()), pa.array([VERSION], pa.binary()))
            except SchemaError:
                found.append(REFUSED)
                continue
        column.validate(full=True)
        found.append(shown(_numbers(column, target)[0], target))
    assert found[0] == found[1], "C and Python differ"
    return found[0]


def _numbers(column, kind):
    """The values of a column; times as the table has them."""
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind):
        name, base = ("micros", pa.int64()) if types.is_timestamp(kind) else ("day", pa.int32())
        return [None if one is None else {name: one} for one in column.view(base).to_pylist()]
    if types.is_struct(kind):
        below = {kind.field(at).name: _numbers(column.field(at), kind.field(at).type) for at in range(kind.num_fields)}
        return [
            {name: one[row] for name, one in below.items()} if column[row].is_valid else None
            for row in range(len(column))
        ]
    if types.is_list(kind):
        items, ends = _numbers(column.values, kind.value_type), column.offsets.to_pylist()
        return [items[ends[row] : ends[row + 1]] if column[row].is_valid else None for row in range(len(column))]
    if types.is_map(kind):
        keys, items = column.keys.to_pylist(), _numbers(column.items, kind.item_type)
        ends = column.offsets.to_pylist()
        every = list(zip(keys, items, strict=True))
        return [every[ends[row] : ends[row + 1]] if column[row].is_valid else None for row in range(len(column))]
    return column.to_pylist()


def expected(java, *here):
    """What is read here: as Java, if the table says nothing else."""
    if here:
        return here[0]
    return REFUSED if isinstance(java, dict) and "error" in java else java


def same(found, wanted):
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys() == {"decimal"}:
        return Decimal(found["decimal"]) == Decimal(wanted["decimal"])
    return found == wanted


def value(found):
    return found if found == REFUSED else found["v"]


SHAPES = {
    "alone": (lambda kind: kind, lambda payload: payload, lambda found: found),
    "option": (lambda kind: ["null", kind], lambda payload: b"\x02" + payload, lambda found: found),
    "array": (
        lambda kind: {"type": "array", "items": kind},
        lambda payload: b"\x02" + payload + b"\0",
        lambda found: [found],
    ),
    "map": (
        lambda kind: {"type": "map", "values": kind},
        lambda payload: b"\x02\x02k" + payload + b"\0",
        lambda found: {"map": {"k": found}},
    ),
    "record": (lambda kind: {**record(kind), "name": "Inner"}, lambda payload: payload, lambda found: {"v": found}),
}
"""Types around a type: the definition, the payload, and what is read."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("writer", TYPES)
def test_types(writer, shape):
    around, payload_of, shown_in = SHAPES[shape]
    cells = TABLE["avro_types"][writer]
    payloads = cells["payloads"] if shape == "alone" else cells["payloads"][:1]
    read_by_java = {reader: values for readers, values in cells["read"].items() for reader in readers.split()}
    assert read_by_java.keys() <= TYPES.keys()
    wrong = []
    for reader, (number, payload) in itertools.product(TYPES, enumerate(payloads)):
        schemas = (record(around(TYPES[one])) for one in (writer, reader))
        found = value(read("AVRO", *schemas, payload_of(bytes.fromhex(payload))))
        wanted = expected(*read_by_java[reader][number]) if reader in read_by_java else REFUSED
        if found != (wanted if wanted == REFUSED else shown_in(wanted)):
            wrong.append((reader, payload, found, wanted))
    assert wrong == []


@pytest.mark.parametrize("cell", TABLE["avro_schemas"])
def test_schemas(cell):
    writer, reader, payload, *java = cell
    assert same(read("AVRO", writer, reader, bytes.fromhex(payload)), expected(*java))


@pytest.mark.parametrize("cell", TABLE["json"], ids=lambda cell: f"{cell[0]}-{cell[1]}")
def test_json(cell):
    name, text, *java = cell
    schema = record(TABLE["json_types"][name])
    assert same(value(read("JSON", schema, schema, f'{{"v":{text}}}'.encode())), expected(*java))
