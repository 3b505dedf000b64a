import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.schema_pb2 import SchemaEntry, SchemaIndexEntry, SchemaInfo, SchemaLocator, SchemaPosition
from readonly_engine.wire.schemas import (
    SchemaPlace,
    StoredSchema,
    decode_schema,
    decode_schema_locator,
    decode_schema_version,
)


def place(version, ledger_id):
    return SchemaIndexEntry(version=version, position=SchemaPosition(ledger_id=ledger_id, entry_id=0))


def test_every_version_once_and_the_newest_last():
    locator = SchemaLocator(info=place(2, 30), index=[place(0, 10), place(2, 30), place(1, 20)])
    assert decode_schema_locator(locator.SerializeToString()) == [
        SchemaPlace(0, 10, 0),
        SchemaPlace(1, 20, 0),
        SchemaPlace(2, 30, 0),
    ]


def test_a_schema():
    info = SchemaInfo(type=SchemaInfo.AVRO, schema=b"{}")
    assert decode_schema(SchemaEntry(schema_data=info.SerializeToString()).SerializeToString()) == StoredSchema(
        "AVRO", b"{}"
    )


def test_the_version_of_a_message():
    assert decode_schema_version((7).to_bytes(8, "big")) == 7
    with pytest.raises(MalformedFrameError, match="a schema version of 3 bytes"):
        decode_schema_version(b"abc")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_schema_or_the_named_error(data):
    for decode in (decode_schema_locator, decode_schema):
        with contextlib.suppress(MalformedFrameError):
            decode(data)
