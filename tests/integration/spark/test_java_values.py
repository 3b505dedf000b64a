"""Values that the stock Java client writes with each of its schemas, decoded by the schema in the registry."""

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from readonly_spark.read.task_reader import read_task
from readonly_spark.values.type_names import spark_name

from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution
from tests.support.pulsar.spark_driver import DEADLINE_S, Driver
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

PROGRAM: Final = Path(__file__).parent / "SchemaClient.java"

ROW: Final = {"count": 1, "name": "a"}
OTHER: Final = {"count": 2, "name": "b"}
ROW_TYPE: Final = "struct<count:int,name:string>"

PROTOBUF_TYPE: Final = (
    "struct<name:string,fields:array<binary>,oneofs:array<string>,options:array<binary>,source_context:binary,syntax:int,"
    "edition:string>"
)

EXPECTED: Final[dict[str, tuple[str, list[Any]]]] = {
    "instant": ("timestamp", [datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC)]),
    "date": ("date", [date(1969, 7, 20)]),
    "time": ("bigint", [86_399_999_999_999]),
    "datetime": ("timestamp_ntz", [datetime(2026, 11, 25, 12, 0, 0, 1)]),  # noqa: DTZ001
    "clock": ("bigint", [3_600_000]),
    **{
        f"avro-{encoding}": (
            f"struct<key:int,value:{ROW_TYPE}>",
            [{"key": 7, "value": ROW}, {"key": 8, "value": None}],
        )
        for encoding in ("INLINE", "SEPARATED")
    },
    **{
        f"json-{encoding}": (
            f"struct<key:{ROW_TYPE},value:{ROW_TYPE}>",
            [{"key": ROW, "value": OTHER}, {"key": ROW, "value": None}],
        )
        for encoding in ("INLINE", "SEPARATED")
    },
    **{
        f"{other}-joins-{encoding}": (
            f"struct<key:int,value:{ROW_TYPE}>",
            [{"key": 7, "value": ROW}, {"key": 8, "value": ROW}],
        )
        for encoding, other in (("INLINE", "SEPARATED"), ("SEPARATED", "INLINE"))
    },
    "protobuf": (
        PROTOBUF_TYPE,
        [
            {
                "name": "a", "fields": [], "oneofs": ["x", "y"], "options": [], "source_context": b"", "syntax": 1, "edition": "",
            },
            {
                "name": "", "fields": [], "oneofs": [], "options": [], "source_context": b"", "syntax": 0, "edition": "",
            },
        ],
    ),
}  # fmt: skip
"""Type and values of each topic. An unset field of a PROTOBUF schema has its default."""


@pytest.fixture(scope="module")
def prefix(spark_stack: PulsarCluster) -> str:
    """Prefix of the topics."""
    name = f"persistent://public/default/java-{uuid.uuid4().hex[:8]}-"
    home = ensure_distribution(spark_stack.spec.version)
    words = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{home}/lib/*",
        str(PROGRAM),
        spark_stack.endpoints.writer_url,
        name,
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert "published" in done.stdout, done.stdout + done.stderr
    return name


@pytest.fixture
def reading(spark_stack: PulsarCluster, prefix: str, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A reader of the topic of a test."""
    with closing(Driver(spark_stack, f"{prefix}{request.node.callspec.params['name']}", valueSchema="auto")) as driver:
        yield driver


@pytest.mark.parametrize("name", EXPECTED)
def test_values_of_java_clients(reading: Driver, name: str) -> None:
    kind, expected = EXPECTED[name]
    topics = reading.call(reading.catalog.selection.remaining())
    decoded = reading.call(reading.catalog.value_type(topics))
    assert spark_name(decoded) == kind
    schema = pa.schema([("value", decoded)])

    def values() -> list[Any]:
        return [
            row["value"] for task in reading.tasks() for found in read_task(task, schema) for row in found.to_pylist()
        ]

    wait_until(lambda: len(values()) >= len(expected), DEADLINE_S, "the owner has told the bookies of the last one")
    assert values() == expected
