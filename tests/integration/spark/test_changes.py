"""What happens to a topic between planning and reading: trims, rolls, offload, deletion from the bookies."""

import pickle
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_spark.errors import DataLossError

from devstack.objectstore.server import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution, ensure_offloaders
from devstack.pulsar.spec import DEFAULT_VERSION
from tests.integration.spark.test_streams import run_until, start, table, wait_for
from tests.support.pulsar.spark_driver import Driver, numbers, publish, read
from tests.support.pulsar.spark_session import batch, stream
from tests.support.waiting import wait_until

DEADLINE_S: Final = 180
STORE_PORT: Final = 18701
BUCKET: Final = "offloaded"


def ledgers_of(stack: PulsarCluster, topic: str) -> list[int]:
    return [ledger["ledgerId"] for ledger in stack.admin().internal_stats(topic)["ledgers"]]


def truncate(stack: PulsarCluster, topic: str) -> None:
    """Have the owner delete all ledgers but the one in use, and see that they are gone."""
    before = set(ledgers_of(stack, topic)[:-1])
    deadline = time.monotonic() + DEADLINE_S
    while before & set(ledgers_of(stack, topic)):
        stack.admin().truncate(topic)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_plan_is_read_as_it_was_made_whatever_comes_after_it(spark_stack, spark_client, driver, topic) -> None:
    publish(spark_client, topic, 0, 249)
    tasks = driver(topic, maxBytesPerPartition="2k").plan(250)
    publish(spark_client, topic, 250, 499)  # rolls the ledger in use
    spark_stack.admin().unload(topic)
    assert len(tasks) > 3
    assert read(tasks) == numbers(0, 249)
    assert read(tasks) == numbers(0, 249), "as often as one likes"


@pytest.mark.nightly
@pytest.mark.parametrize("fail", ["true", "false"])
def test_what_is_trimmed_between_plan_and_read(spark_stack, spark_client, driver, topic, fail) -> None:
    publish(spark_client, topic, 0, 249)
    plan = driver(topic, failOnDataLoss=fail)
    tasks = plan.plan(250)
    states = plan.states()
    truncate(spark_stack, topic)
    # Bookies keep what nobody needs for a while: a task may still find it, or has to say that it does not.
    if fail == "true":
        try:
            assert read(tasks) == numbers(0, 249)
        except DataLossError as error:
            assert topic in str(error)  # noqa: PT017 - both outcomes are right
        (name, state), *_ = states.items()
        with pytest.raises(DataLossError, match="were trimmed"):
            plan.call(plan.planner.tasks(plan.states(), {name: state.earliest}, {name: state.latest}))
    else:
        assert set(read(tasks)) <= set(numbers(0, 249))
        (name, state), *_ = states.items()
        now = plan.states()
        left = plan.call(plan.planner.tasks(now, {name: state.earliest}, {name: state.latest}))
        kept = read(left)
        assert kept == numbers(250 - len(kept), 249)
        assert len(kept) < 250


@pytest.mark.nightly
def test_a_stream_at_the_end_of_a_trimmed_ledger_loses_nothing(
    spark, spark_stack, spark_client, topic, tmp_path
) -> None:
    """The ledger that it has read is trimmed, the empty one after it is replaced when the owner loads the topic again."""
    admin = spark_stack.admin()
    publish(spark_client, topic, 0, 49)
    frame = stream(spark, spark_stack, topic, failOnDataLoss="true")
    run_until(spark, frame, tmp_path, 50)
    admin.unload(topic)
    assert len(admin.internal_stats(topic)["ledgers"]) == 2, "loaded again, with an empty ledger"
    query = start(frame, tmp_path, processingTime="200 milliseconds")
    try:
        wait_until(lambda: '"n"' in newest_offset(tmp_path), DEADLINE_S, what="the following ledger is recorded")
        truncate(spark_stack, topic)
        for begin in (50, 60):
            admin.unload(topic)
            publish(spark_client, topic, begin, begin + 9)
            wait_for(spark, query, tmp_path, begin + 10)
    finally:
        query.stop()
    assert table(spark, tmp_path) == list(range(70))


def newest_offset(folder: Path) -> str:
    offsets = folder / "checkpoint" / "offsets"
    return (offsets / str(max(int(path.name) for path in offsets.iterdir() if path.name.isdigit()))).read_text()


@pytest.fixture(scope="module")
def object_store() -> Iterator[ObjectStore]:
    """MinIO. Without Go it cannot be built, and what needs it fails and says so."""
    store = ObjectStore("spark", STORE_PORT)
    store.up(BUCKET)
    yield store
    store.down()


@pytest.fixture(params=["filesystem", "S3"])
def offloading(request, tmp_path) -> tuple[dict[str, str], dict[str, str]]:
    """Policies of a namespace that offloads, and options of who reads there."""
    policies = {
        "managedLedgerOffloadDriver": request.param,
        "offloadersDirectory": str(ensure_offloaders(DEFAULT_VERSION)),
    }
    if request.param == "filesystem":
        conf = ensure_distribution(DEFAULT_VERSION) / "conf" / "filesystem_offload_core_site.xml"
        return {**policies, "fileSystemProfilePath": str(conf), "fileSystemURI": f"file://{tmp_path}"}, {}
    endpoint = request.getfixturevalue("object_store").endpoint
    place = {"Bucket": BUCKET, "ServiceEndpoint": endpoint, "Region": REGION}
    credentials = tmp_path / "credentials"
    credentials.write_text(f"[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n")
    return (
        {**policies, **{f"managedLedgerOffload{name}": value for name, value in place.items()}},
        {"tieredStorage.credentialsFile": str(credentials)},
    )


@pytest.mark.nightly
def test_offloaded_and_deleted_from_the_bookies(spark, spark_stack, spark_client, driver, offloading) -> None:
    admin = spark_stack.admin()
    namespace = f"public/spark-offload-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    policies, options = offloading
    admin.set_offload_policies(namespace, policies)
    topic = f"persistent://{namespace}/offloaded"
    publish(spark_client, topic, 0, 249)
    plan = driver(topic, **options)
    before = plan.plan(250)
    admin.offload(topic, admin.last_message_id(topic))
    deadline = time.monotonic() + DEADLINE_S
    while admin.offload_status(topic)["status"] != "SUCCESS":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    between = plan.plan(250)
    assert any(one.ledger.offload for task in between for one in task.ranges)
    assert read(between) == numbers(0, 249)
    admin.set_offload_policies(namespace, {**policies, "managedLedgerOffloadDeletionLagInMillis": 0})
    while not deleted(plan, topic):
        admin.trim(topic)
        assert time.monotonic() < deadline + DEADLINE_S
        time.sleep(0.1)
    assert read(plan.plan(250)) == numbers(0, 249), "from tiered storage alone"
    assert SECRET_KEY.encode() not in pickle.dumps(between), "a plan names files"
    rows = batch(spark, spark_stack, topic, columns="value binary", minPartitions="4", **options).collect()
    assert sorted(bytes(row["value"]).decode() for row in rows) == sorted(numbers(0, 249))
    assert read(between) == numbers(0, 249), "planned while there were two copies"
    try:
        assert read(before) == numbers(0, 249)
    except DataLossError as error:  # planned before there was another copy
        assert topic in str(error)  # noqa: PT017


def deleted(plan: Driver, topic: str) -> bool:
    info = plan.call(plan.catalog.cluster.topic(parse_topic_name(topic)))
    offloaded = [ledger.offload_context for ledger in info.ledger_info if ledger.offload_context.complete]
    return bool(offloaded) and all(context.bookkeeper_deleted for context in offloaded)
