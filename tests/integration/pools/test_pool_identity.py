"""Pools of one name on one metadata store, as two Kubernetes clusters with the same manifests make them."""

import asyncio
import uuid
from pathlib import Path

import pytest
from readonly_engine.broker.pool.membership import PoolMembership
from readonly_engine.metadata.errors import NotAdmittedError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from devstack.pool import BrokerProcess
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.fleet import TESTS
from tests.support.pulsar.metadata import opened_store
from tests.support.pulsar.raw_client import RawClient

pytestmark = pytest.mark.second_stack

STOPPED_S = 30


@pytest.fixture
def pool() -> str:
    return uuid.uuid4().hex


def started(pulsar: Endpoints, folder: Path, pool: str, uid: str) -> BrokerProcess:
    options = ["--pool", pool, "--topics", TESTS, *(["--pool-uid", uid] if uid else [])]
    return BrokerProcess(pulsar, folder / f"broker-{uuid.uuid4().hex[:4]}.log", options)


@pytest.mark.nightly
def test_a_namesake_is_refused_while_the_pool_has_a_broker_and_may_have_the_name_after_it(
    pulsar: Endpoints, tmp_path: Path, pool: str
) -> None:
    first = started(pulsar, tmp_path, pool, "uid-a")
    brokers = [first]
    try:
        first.wait_ready()
        for uid, shown in (("uid-b", "uid-b"), ("", "none")):
            namesake = started(pulsar, tmp_path, pool, uid)
            brokers.append(namesake)
            assert namesake.process.wait(STOPPED_S) == 1
            words = namesake.log.read_text()
            assert f"pool {pool} (uid {shown}): another pool of this name (uid uid-a) has a live broker" in words
            assert words.count("another pool of this name") == 1
        assert list(first.stats()["brokers"]) == [first.url] or len(first.stats()["brokers"]) == 1
        second = started(pulsar, tmp_path, pool, "uid-a")
        brokers.append(second)
        second.wait_ready()
        assert first.stop() == 0
        assert second.stop() == 0
        recreated = started(pulsar, tmp_path, pool, "uid-b")
        brokers.append(recreated)
        recreated.wait_ready()
        late = started(pulsar, tmp_path, pool, "uid-a")
        brokers.append(late)
        assert late.process.wait(STOPPED_S) == 1
    finally:
        for broker in brokers:
            broker.kill()


def test_the_pools_consumers_carry_its_identity(
    pulsar: Endpoints, admin: PulsarAdmin, tmp_path: Path, pool: str, topic: str
) -> None:
    """By its name alone, two pools would take each other's consumers for their own, and both would deliver everything."""
    broker = started(pulsar, tmp_path, pool, "uid-a")
    try:
        broker.wait_ready()
        with RawClient(broker.url) as client:
            client.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
            (consumer,) = admin.stats(topic)["subscriptions"]["s"]["consumers"]
            assert consumer["metadata"]["pulsar-readonly.pool"] == f"{pool}@uid-a"
    finally:
        broker.kill()


@pytest.mark.nightly
async def test_of_two_namesakes_that_come_at_once_one_is_admitted(pulsar: Endpoints, pool: str) -> None:
    async def join(fleet: PoolMembership) -> bool:
        try:
            await fleet.join()
        except NotAdmittedError:
            return False
        return True

    async with opened_store(pulsar.metadata_store) as one, opened_store(pulsar.metadata_store) as two:
        for _ in range(20):
            name = uuid.uuid4().hex
            fleets = [
                PoolMembership(store, name, f"pulsar://{uid}:6650", uid=uid) for store, uid in ((one, "a"), (two, "b"))
            ]
            assert sorted(await asyncio.gather(*map(join, fleets))) == [False, True]
            for fleet in fleets:
                fleet.close()


async def test_a_namesake_with_the_same_address_does_not_take_the_brokers_place(pulsar: Endpoints, pool: str) -> None:
    """Pods of two clusters have the same names in DNS."""
    async with opened_store(pulsar.metadata_store) as one, opened_store(pulsar.metadata_store) as two:
        mine = PoolMembership(one, pool, "pulsar://pool-0:6650", uid="a")
        await mine.join()
        with pytest.raises(NotAdmittedError, match=r"uid a.*pulsar://pool-0:6650"):
            await PoolMembership(two, pool, "pulsar://pool-0:6650", uid="b").join()
        again = PoolMembership(two, pool, "pulsar://pool-0:6650", uid="a")
        await again.join()
        mine.close()
        again.close()


@pytest.mark.nightly
async def test_a_broker_whose_pools_name_went_to_a_namesake_while_it_had_no_session_is_told(
    pulsar: Endpoints, pool: str
) -> None:
    told: list[NotAdmittedError] = []
    async with opened_store(pulsar.metadata_store) as one, opened_store(pulsar.metadata_store) as two:
        mine = PoolMembership(one, pool, "pulsar://a:6650", uid="a", on_rejected=told.append)
        await mine.join()
        path = f"/pulsar-readonly/pools/{pool}/brokers/pulsar%3A%2F%2Fa%3A6650"
        await two.remove(path)  # as the end of its session does
        other = PoolMembership(two, pool, "pulsar://b:6650", uid="b")
        await other.join()
        with pytest.raises(NotAdmittedError):
            await one.update(path, b"{}")
        assert len(told) == 1
        mine.close()
        other.close()
