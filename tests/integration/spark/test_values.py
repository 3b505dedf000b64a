"""Values by the schema that a topic has in a real registry, through its evolution."""

import asyncio
import time
import uuid
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Long, Record, String
from readonly_engine.metadata.cluster import ledger_path
from readonly_engine.wire.schemas import decode_schema_locator
from readonly_spark.errors import SourceError
from readonly_spark.read.task_reader import read_task
from readonly_spark.values.type_names import spark_name

from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.metadata import opened_store
from tests.support.pulsar.spark_driver import DEADLINE_S, Driver, publish
from tests.support.pulsar.spark_session import batch
from tests.support.records import delete_record

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
    with closing(Driver(spark_stack, topic, valueSchema="auto")) as driver:
        wanted = driver.call(driver.catalog.value_type([topic]))
        (schema,) = driver.call(driver.catalog.value_schemas([topic])).values()
        assert sorted(schema.versions) == [0, 1]
        names = {wanted.field(index).name: spark_name(wanted.field(index).type) for index in range(wanted.num_fields)}
        assert names == {"id": "bigint", "what": "string", "count": "int"}
        rows = read_values(driver, wanted, 2 * COUNT)
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
            for task in driver.tasks()
            for one in read_task(task, pa.schema([("value", kind)]))
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
    # The same with a column for each field.
    flat = batch(spark, spark_stack, topic, valueSchema="auto", fieldColumns="true")
    assert flat.columns[:5] == ["id", "what", "count", "__topic", "__partition"]
    assert flat.groupBy("what").sum("count").collect() == totals
    assert {row["__topic"] for row in flat.select("__topic").collect()} == {topic}


@pytest.mark.nightly
def test_topics_whose_schemas_are_not_at_the_same_version_are_read_together(spark_client, driver) -> None:
    """As while producers are rolled out: one topic has the second version, the other does not."""
    one, other = (f"persistent://public/default/rolled-{uuid.uuid4().hex[:8]}" for _ in range(2))
    for topic, versions in ((one, (False, True)), (other, (False,))):
        for evolved in versions:
            made = order(evolved=evolved)
            more = {"count": 5} if evolved else {}
            produce(spark_client, topic, AvroSchema, made, made(id=len(more), what=topic[-8:], **more))
    both = driver(topics=f"{one},{other}", valueSchema="auto")
    wanted = both.call(both.catalog.value_type([one, other]))
    assert spark_name(wanted) == "struct<id:bigint,what:string,count:int>"
    rows = sorted(read_values(both, wanted, 3), key=lambda row: (row["what"] != one[-8:], row["id"]))
    assert rows == [
        {"id": 0, "what": one[-8:], "count": None},
        {"id": 1, "what": one[-8:], "count": 5},
        {"id": 0, "what": other[-8:], "count": None},
    ]


def produce(client: Any, topic: str, kind: Any, made: Any, *values: Any, **options: Any) -> None:
    producer = client.create_producer(topic, schema=kind(made), batching_enabled=False, **options)
    for value in values:
        producer.send(value)
    producer.close()


def refusal(driver: Driver, wanted: pa.DataType) -> str:
    """The error of the tasks, which read to where it is."""
    with pytest.raises(SourceError) as caught:
        read_values(driver, wanted, 1 << 30)
    return str(caught.value)


def values_now(driver: Driver, wanted: pa.DataType, entries: int) -> list[Any]:
    schema = pa.schema([("value", wanted)])
    return [
        one for task in driver.plan(entries) for rows in read_task(task, schema) for one in rows["value"].to_pylist()
    ]


@pytest.mark.nightly
def test_a_deleted_version_is_not_read_as_the_newest(spark_stack, spark_client, topic, driver) -> None:
    before, after = (
        type("Swapped", (Record,), {name: String(required=True) for name in names}) for names in ("ab", "ba")
    )
    produce(spark_client, topic, AvroSchema, before, before(a="first", b="second"))
    produce(spark_client, topic, AvroSchema, after, after(a="first", b="second"))
    delete_schema_ledger(spark_stack, topic, 0)
    wanted = pa.struct([("a", pa.string()), ("b", pa.string())])
    reader = driver(topic, valueSchema="auto")
    reader.plan(2)
    assert "names schema version 0, which was deleted" in refusal(reader, wanted)
    lenient = driver(topic, valueSchema="auto", decodeErrors="null")
    assert values_now(lenient, wanted, 2) == [None, {"a": "first", "b": "second"}]


@pytest.mark.nightly
def test_a_topic_whose_schema_was_deleted_has_none(spark_stack, spark_client, topic, driver) -> None:
    made = order(evolved=False)
    produce(spark_client, topic, AvroSchema, made, made(id=1, what="before"))
    spark_stack.admin().delete_schema(topic)
    reader = driver(topic, valueSchema="auto")
    with pytest.raises(SourceError, match=f"the newest schema version of {topic} was deleted"):
        reader.call(reader.catalog.value_type([topic]))
    # What a query that runs has still to read was written by a version that there is.
    wanted = pa.struct([("id", pa.int64()), ("what", pa.string())])
    assert values_now(reader, wanted, 1) == [{"id": 1, "what": "before"}]


def delete_schema_ledger(stack: PulsarCluster, topic: str, version: int) -> None:
    """Delete where a version of a topic's schema is stored, as a deletion does that is killed before it has done it all."""

    async def find() -> int:
        async with opened_store(stack.endpoints.metadata_store) as store:
            node = await store.get(f"/schemas/public/default/{topic.rpartition('/')[2]}")
        assert node is not None
        (place,) = (place for place in decode_schema_locator(node.value) if place.version == version)
        return place.ledger_id

    delete_record(stack.endpoints, ledger_path("/ledgers", asyncio.run(find())))


def test_a_topic_without_a_schema_says_so(spark_stack, spark_client, topic) -> None:
    publish(spark_client, topic, 0, 0)
    with (
        closing(Driver(spark_stack, topic, valueSchema="auto")) as driver,
        pytest.raises(Exception, match=f"valueSchema=auto: {topic} has no schema"),
    ):
        driver.call(driver.catalog.value_type([topic]))
