"""Streams while servers are away: they go on with what can be read, and each message is in the table once."""

import uuid
from typing import Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from tests.integration.spark.outages import bookies_stopped, metadata_store_killed, watch
from tests.integration.spark.test_streams import DEADLINE_S, start, table, wait_for
from tests.support.pulsar.spark_driver import publish
from tests.support.pulsar.spark_session import stream
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

TRIGGER: Final = {"processingTime": "200 milliseconds"}


def stays_active(query: StreamingQuery) -> None:
    """Watch a query while servers are away."""

    def is_active() -> None:
        assert query.isActive, query.exception()

    watch(is_active)


def test_the_metadata_store_restarts(spark, spark_stack, spark_client, topic, tmp_path) -> None:
    publish(spark_client, topic, 0, 99)
    query = start(stream(spark, spark_stack, topic), tmp_path, **TRIGGER)
    try:
        wait_for(spark, query, tmp_path, 100)
        with metadata_store_killed(spark_stack):
            stays_active(query)
        publish(spark_client, topic, 100, 149)
        wait_for(spark, query, tmp_path, 150)
    finally:
        query.stop()
    assert table(spark, tmp_path) == list(range(150))


def test_all_replicas_are_away(spark, spark_stack, spark_client, topic, tmp_path) -> None:
    publish(spark_client, topic, 0, 99)
    patient = start(stream(spark, spark_stack, topic), tmp_path / "patient", **TRIGGER)
    hasty = start(stream(spark, spark_stack, topic, retryTimeout="1"), tmp_path / "hasty", **TRIGGER)
    try:
        for query, folder in ((patient, "patient"), (hasty, "hasty")):
            wait_for(spark, query, tmp_path / folder, 100)
        with bookies_stopped(spark_stack):
            with pytest.raises(StreamingQueryException, match=r"could not be read for 1 s"):
                hasty.awaitTermination(DEADLINE_S)
            stays_active(patient)
        publish(spark_client, topic, 100, 149)
        wait_for(spark, patient, tmp_path / "patient", 150)
    finally:
        patient.stop()
        hasty.stop()
    again = start(stream(spark, spark_stack, topic, retryTimeout="1"), tmp_path / "hasty", **TRIGGER)
    try:
        wait_for(spark, again, tmp_path / "hasty", 150)
    finally:
        again.stop()
    for folder in ("patient", "hasty"):
        assert table(spark, tmp_path / folder) == list(range(150))


def test_one_topic_that_cannot_be_read_does_not_stop_the_others(
    spark, spark_stack, spark_client, driver, tmp_path
) -> None:
    namespace = f"public/outage-{uuid.uuid4().hex[:8]}"
    admin = spark_stack.admin()
    admin.create_namespace(namespace)
    # Its system topic, where transactions are looked up, is on both bookies.
    publish(spark_client, f"persistent://{namespace}/t-first", 0, 0)
    admin.delete_topic(f"persistent://{namespace}/t-first")
    admin.set_persistence(namespace, ensemble=1, write_quorum=1, ack_quorum=1)
    topics = [f"persistent://{namespace}/t-{number}" for number in range(8)]
    for number, topic in enumerate(topics):
        publish(spark_client, topic, 10 * number, 10 * number + 9)
    query = start(stream(spark, spark_stack, "", topicsPattern=f"{namespace}/.*"), tmp_path, **TRIGGER)
    plan = driver(topicsPattern=f"{namespace}/.*")
    try:
        wait_for(spark, query, tmp_path, 80)
        spark_stack.stop_bookie(0)
        try:
            _, failed = plan.call(plan.planner.reachable_states())
            assert 0 < len(failed) < len(topics), "a ledger is on one of two bookies"
            readable = next(topic for topic in topics if topic not in failed)
            publish(spark_client, readable, 80, 89)
            wait_for(spark, query, tmp_path, 90)
            assert query.isActive
        finally:
            spark_stack.start_bookie(0)
        for number, topic in enumerate(sorted(failed)):
            publish(spark_client, topic, 90 + 10 * number, 99 + 10 * number)
        count = 90 + 10 * len(failed)
        wait_for(spark, query, tmp_path, count)
    finally:
        query.stop()
    assert table(spark, tmp_path) == list(range(count))
    wait_until(lambda: not plan.call(plan.planner.reachable_states())[1], DEADLINE_S)
