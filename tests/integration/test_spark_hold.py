"""A subscription that holds messages back for a stream: it moves with the commits, and nobody else's is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.errors import StreamingQueryException

from tests.integration.spark_driver import publish
from tests.integration.spark_session import stream
from tests.integration.test_spark_streams import DEADLINE_S, start, table, wait_for
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from devstack.pulsar.cluster import PulsarCluster

HOLD: Final = "held-by-spark"
MOVED_S: Final = 60

TRIGGER: Final = {"processingTime": "200 milliseconds"}

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


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
