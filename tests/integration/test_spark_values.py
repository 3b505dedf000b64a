"""Values by the schema that a topic has in a real registry, through its evolution."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Long, Record, String
from readonly_spark.task_reader import read_work
from readonly_spark.type_names import spark_name
from readonly_spark.value_schema import value_type

from tests.integration.spark_driver import DEADLINE_S, Driver, publish
from tests.integration.spark_session import batch

if TYPE_CHECKING:
    from devstack.pulsar.cluster import PulsarCluster

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)

COUNT: Final = 20


def order(*, evolved: bool) -> Any:
    """The class of the first version of a schema, or of the second; both have the same name."""
    fields = {"id": Long(required=True), "what": String()}
    if evolved:
        fields["count"] = Integer(required_default=True)  # null: else it would not be compatible
    return type("Order", (Record,), fields)


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_a_schema_and_the_one_after_it(spark_stack: PulsarCluster, spark_client, topic, kind) -> None:
    for evolved in (False, True):
        made = order(evolved=evolved)
        producer = spark_client.create_producer(topic, schema=kind(made), batching_enabled=False)
        for number in range(COUNT):
            more = {"count": 2 * number} if evolved else {}
            producer.send(made(id=number, what=f"thing-{number}", **more))
        producer.close()
    driver = Driver(spark_stack, topic, valueSchema="auto")
    try:
        schema = driver.call(driver.catalog.value_schema([topic]))
        assert schema is not None
        wanted = value_type(schema.newest)
        assert sorted(schema.versions) == [0, 1]
        names = {wanted.field(index).name: spark_name(wanted.field(index).type) for index in range(wanted.num_fields)}
        assert names == {"id": "bigint", "what": "string", "count": "int"}
        rows = read_values(driver, wanted, 2 * COUNT)
    finally:
        driver.close()
    assert rows == [
        {"id": number, "what": f"thing-{number}", "count": 2 * number if evolved else None}
        for evolved in (False, True)
        for number in range(COUNT)
    ]


def read_values(driver: Driver, kind: pa.DataType, count: int) -> list[Any]:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = [
            value.as_py()
            for work in driver.work()
            for one in read_work(work, pa.schema([("value", kind)]))
            for value in one.column("value")
        ]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_in_spark_the_value_has_columns(spark, spark_stack, spark_client) -> None:
    topic = f"persistent://public/default/orders-{uuid.uuid4().hex[:8]}"
    made = order(evolved=True)
    producer = spark_client.create_producer(topic, schema=JsonSchema(made), batching_enabled=False)
    for number in range(COUNT):
        producer.send(made(id=number, what="odd" if number % 2 else "even", count=number))
    producer.close()
    frame = batch(spark, spark_stack, topic, valueSchema="auto")
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,what:string,count:int>"
    deadline = time.monotonic() + DEADLINE_S
    while len(frame.select("value.id").collect()) < COUNT:
        assert time.monotonic() < deadline
        frame = batch(
            spark, spark_stack, topic, valueSchema="auto"
        )  # one that was read sees nothing new: Spark keeps its plan
    totals = frame.groupBy("value.what").sum("value.count").collect()
    assert sorted(tuple(row) for row in totals) == [("even", sum(range(0, COUNT, 2))), ("odd", sum(range(1, COUNT, 2)))]


def test_a_topic_without_a_schema_says_so(spark_stack, spark_client, topic) -> None:
    publish(spark_client, topic, 0, 0)
    driver = Driver(spark_stack, topic, valueSchema="auto")
    try:
        with pytest.raises(Exception, match=f"valueSchema=auto: {topic} has no schema"):
            driver.call(driver.catalog.value_schema([topic]))
    finally:
        driver.close()
