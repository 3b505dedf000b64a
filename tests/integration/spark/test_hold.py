"""A subscription that holds messages back for a stream: it moves with the commits, and nobody else's is touched."""

import uuid
from contextlib import closing
from typing import Any, Final

import pytest
from pyspark.errors import StreamingQueryException
from readonly_spark.options import parse_options
from readonly_spark.plan.admission import Limits
from readonly_spark.stream import StreamPlanner

from devstack.pulsar.cluster import PulsarCluster
from tests.integration.spark.test_streams import DEADLINE_S, start, table, wait_for
from tests.support.pulsar.raw_client import RawClient
from tests.support.pulsar.spark_driver import numbers, publish, read
from tests.support.pulsar.spark_session import stream
from tests.support.pulsar.stacks import LEDGER_ENTRIES
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

HOLD: Final = "held-by-spark"
MOVED_S: Final = 60

TRIGGER: Final = {"processingTime": "200 milliseconds"}


def holding(stack: PulsarCluster, **options: str) -> dict[str, Any]:
    return {"holdSubscription": HOLD, "adminUrl": stack.endpoints.admin_url, **options}


def held(stack: PulsarCluster, topic: str) -> dict[str, Any] | None:
    """The subscription in the statistics of its topic."""
    found: dict[str, Any] | None = stack.admin().stats(topic)["subscriptions"].get(HOLD)
    return found


def test_messages_are_held_until_the_sink_has_them(spark, spark_stack, spark_client, topic, tmp_path) -> None:
    publish(spark_client, topic, 0, 99)
    query = start(stream(spark, spark_stack, topic, **holding(spark_stack)), tmp_path, **TRIGGER)
    try:
        wait_for(spark, query, tmp_path, 100)
        found = held(spark_stack, topic)
        assert found is not None
        assert found["subscriptionProperties"] == {"pulsar-readonly": "spark-hold"}
        assert found["isDurable"]
        assert not found["consumers"]
        publish(spark_client, topic, 100, 149)
        wait_for(spark, query, tmp_path, 150)
        publish(spark_client, topic, 150, 150)  # Spark tells what is committed with the next micro-batch
        wait_for(spark, query, tmp_path, 151)

        def moved() -> bool:
            now = held(spark_stack, topic)
            return now is not None and now["msgBacklog"] <= 1

        wait_until(moved, MOVED_S, "it follows the commits")
    finally:
        query.stop()
    spark_stack.admin().delete_subscription(topic, HOLD)
    publish(spark_client, topic, 151, 160)
    again = start(stream(spark, spark_stack, topic, **holding(spark_stack)), tmp_path, **TRIGGER)
    try:
        wait_for(spark, again, tmp_path, 161)
        assert held(spark_stack, topic) is not None, "it is made again"
    finally:
        again.stop()


def test_the_subscription_of_somebody_else_stays_where_it_is(spark, spark_stack, spark_client, topic, tmp_path) -> None:
    publish(spark_client, topic, 0, 9)
    spark_stack.admin().create_subscription(topic, HOLD)
    before = spark_stack.admin().internal_stats(topic)["cursors"][HOLD]["markDeletePosition"]
    query = start(stream(spark, spark_stack, topic, **holding(spark_stack)), tmp_path, **TRIGGER)
    with pytest.raises(StreamingQueryException, match=f"has a subscription {HOLD} that this source did not make"):
        query.awaitTermination(DEADLINE_S)
    assert spark_stack.admin().internal_stats(topic)["cursors"][HOLD]["markDeletePosition"] == before
    assert held(spark_stack, topic)["subscriptionProperties"] == {}


def test_without_the_admin_api_nothing_is_read_unheld(spark, spark_stack, spark_client, topic, tmp_path) -> None:
    publish(spark_client, topic, 0, 9)
    options = holding(spark_stack, adminUrl="http://127.0.0.1:1", retryTimeout="1")
    query = start(stream(spark, spark_stack, topic, **options), tmp_path, **TRIGGER)
    with pytest.raises(StreamingQueryException, match=r"the admin API at http://127.0.0.1:1 did not answer"):
        query.awaitTermination(DEADLINE_S)
    assert table(spark, tmp_path) == []


def test_the_first_chunk_of_an_incomplete_message_is_not_trimmed(spark_stack, spark_client) -> None:
    """A micro-batch ends between the chunks, in another ledger than the first one, which a trim would delete."""
    admin, namespace = spark_stack.admin(), f"public/held-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.set_retention(namespace, minutes=0, megabytes=0)
    topic = f"persistent://{namespace}/chunks"
    given = {"metadataStoreUrl": spark_stack.endpoints.metadata_store, "topic": topic, "startingOffsets": "earliest"}
    options = parse_options({**given, **holding(spark_stack)}, streaming=True)
    chunk = {"uuid": "big", "num_chunks_from_msg": 2, "total_chunk_msg_size": 5}
    publish(spark_client, topic, 0, 4)
    with RawClient(spark_stack.endpoints.writer_url) as raw:
        raw.produce(topic, producer_name="raw")
        raw.publish(b"m-b", 0, chunk_id=0, **chunk)
        raw.receipt()
        publish(spark_client, topic, 5, LEDGER_ENTRIES + 4)
        with closing(StreamPlanner(options)) as first:
            start = first.start()
            wait_until(
                lambda: len(read(first.tasks(start, first.end(start, Limits())))) == LEDGER_ENTRIES + 5, DEADLINE_S
            )
            end = first.end(start, Limits())
            first.commit(end)
        before, after = (int(offset["t"][topic].partition(":")[0]) for offset in (start, end))
        assert before < after
        assert admin.internal_stats(topic)["cursors"][HOLD]["markDeletePosition"] == f"{before}:4"
        admin.trim(topic)
        raw.publish(b"ig", 1, chunk_id=1, **chunk)
        raw.receipt()
    publish(spark_client, topic, 200, 200)
    with closing(StreamPlanner(options)) as second:
        wait_until(
            lambda: read(second.tasks(end, second.end(end, Limits()))) == ["m-big", *numbers(200, 200)], DEADLINE_S
        )
        second.commit(second.end(end, Limits()))
    assert admin.stats(topic)["subscriptions"][HOLD]["msgBacklog"] == 0, "it continues after the message"
