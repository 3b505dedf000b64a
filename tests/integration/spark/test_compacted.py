"""Streams of compacted views: the view first, then every message, whatever compaction and retention do meanwhile."""

import uuid
from contextlib import suppress

import pulsar as pulsar_lib
import pytest
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_spark.errors import DataLossError
from readonly_spark.plan.planner import MAX_LOOKUPS

from devstack.pulsar.admin import AdminError
from tests.integration.spark.test_changes import DEADLINE_S, ledgers_of
from tests.integration.spark.test_streams import run, run_until, table
from tests.support.pulsar.spark_driver import numbers, read
from tests.support.pulsar.spark_session import LIMITS, stream
from tests.support.pulsar.stacks import LEDGER_ENTRIES
from tests.support.topics import create_settled_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

KEYS = 10


def publish(client: pulsar_lib.Client, topic: str, first: int, end: int) -> None:
    """Messages m-FIRST up to, not including, m-END, with ten keys in turn, one entry each."""
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(first, end):
        producer.send_async(f"m-{number}".encode(), None, partition_key=f"k-{number % KEYS}")
    producer.flush()
    producer.close()


def test_a_compaction_during_planning_has_the_topic_looked_up_again(spark_stack, spark_client, driver, topic) -> None:
    admin = spark_stack.admin()
    publish(spark_client, topic, 0, 100)
    view = driver(topic, readCompacted="true")
    admin.compact(topic)
    wait_until(lambda: view.states()[topic].compacted is not None, DEADLINE_S, what="there is a compacted view")
    former = view.states()
    ledger = former[topic].compacted.ledger_id

    def compacted_again() -> bool:
        """Broker 4.0 deletes the former ledger at once, and stores the cursor that names it at most once a second."""
        publish(spark_client, topic, 100, 200)
        with suppress(BookKeeperError, AdminError):  # while a compaction runs, another one is refused
            admin.compact(topic)
            return view.states()[topic].compacted.ledger_id > ledger and not view.call(
                view.catalog.cluster.ledger(ledger)
            )
        return False

    wait_until(compacted_again, DEADLINE_S, what="there is another view, and the former ledger is deleted")
    with pytest.raises(DataLossError, match=f"ledger {ledger} was deleted"):
        view.tasks(*[former] * MAX_LOOKUPS)
    assert read(view.tasks(former))[-KEYS:] == numbers(190, 199), (
        "what the last compaction left, and what came after it"
    )


def test_a_stream_has_the_view_and_then_every_message(spark, spark_stack, spark_client, driver, tmp_path) -> None:
    admin = spark_stack.admin()
    namespace = f"public/view-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.set_retention(namespace, minutes=0, megabytes=0)
    topic = f"persistent://{namespace}/view"
    create_settled_topic(admin, topic)
    admin.create_subscription(topic, "keeps")
    publish(spark_client, topic, 0, 200)
    view = driver(topic, readCompacted="true")

    def compact(end: int) -> None:
        """Compact, until the view is the last ten messages."""
        admin.compact(topic)
        view.await_values(numbers(end - KEYS, end - 1))

    compact(200)
    limits = {"maxMessagesPerTrigger": "3"} if LIMITS else {}
    frame = stream(spark, spark_stack, topic, readCompacted="true", **limits)
    run_until(spark, frame, tmp_path, KEYS)
    assert table(spark, tmp_path) == list(range(190, 200))
    publish(spark_client, topic, 200, 220)
    run_until(spark, frame, tmp_path, 3 * KEYS)
    publish(spark_client, topic, 220, 230)
    compact(230)
    run_until(spark, frame, tmp_path, 4 * KEYS)
    assert table(spark, tmp_path) == list(range(190, 230)), "compaction has covered them, and they are stored"

    # What the stream has not read is compacted and trimmed: it gets what is left of it.
    end = 230 + 3 * LEDGER_ENTRIES
    publish(spark_client, topic, 230, end)
    compact(end)
    before = ledgers_of(spark_stack, topic)
    admin.delete_subscription(topic, "keeps")
    wait_until(
        lambda: admin.trim(topic) or len(set(before) & set(ledgers_of(spark_stack, topic))) == 1,
        DEADLINE_S,
        what="all ledgers but the last are trimmed",
    )
    publish(spark_client, topic, end, end + 5)
    run_until(spark, frame, tmp_path, 5 * KEYS + 5)
    run(frame, tmp_path)
    assert table(spark, tmp_path) == [*range(190, 230), *range(end - KEYS, end + 5)]
