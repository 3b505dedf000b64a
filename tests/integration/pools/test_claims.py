"""Claims on a real ZooKeeper: two brokers, each with a session of its own, that end, hang and come back."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from readonly_engine.broker.pool.claim_store import ClaimStore
from readonly_engine.broker.pool.claims import ActionKind, ClaimKey
from readonly_engine.broker.pool.membership import PoolMembership
from readonly_engine.metadata.lease import EARLIER_POLL_S
from readonly_engine.metadata.store import MetadataStore
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError

from devstack.pulsar.status import Endpoints
from tests.integration.conftest import zookeeper_only
from tests.support.pulsar.metadata import opened_store
from tests.support.waiting import until

KEY = ClaimKey(parse_topic_name("orders"), "a subscription/of=some name")


class Member:
    """What of a broker has to do with claims."""

    def __init__(self, store: MetadataStore, pool: str, url: str) -> None:
        self.store = store
        self.fleet = PoolMembership(store, pool, url)
        self.claiming = ClaimStore(store, self.fleet)
        self.told: list[ActionKind] = []


@asynccontextmanager
async def member(pulsar: Endpoints, pool: str, url: str) -> AsyncIterator[Member]:
    async with opened_store(pulsar.metadata_store) as opened:
        made = Member(opened, pool, url)
        made.claiming.start(lambda action: made.told.append(action.kind))
        await made.fleet.join()
        try:
            yield made
        finally:
            made.claiming.close()
            made.fleet.close()


@pytest.fixture
def pool() -> str:
    return uuid.uuid4().hex


async def test_one_has_it_until_it_lets_go(pulsar: Endpoints, pool: str) -> None:
    async with member(pulsar, pool, "pulsar://a:6650") as a, member(pulsar, pool, "pulsar://b:6650") as b:
        await until(lambda: len(a.fleet.members) == len(b.fleet.members) == 2)
        holds = await asyncio.gather(*(a.claiming.acquire(KEY) for _ in range(3)))
        assert [hold.url for hold in holds] == ["", "", ""]
        assert (await b.claiming.acquire(KEY)).url == "pulsar://a:6650"
        for hold in holds:
            a.claiming.release(hold)
        await a.claiming.wait_released()
        assert (await b.claiming.acquire(KEY)).url == ""
        assert (await a.claiming.acquire(KEY)).url == "pulsar://b:6650"


async def test_a_broker_that_has_left_the_pool_is_waited_for_and_its_end_frees_the_claim(
    pulsar: Endpoints, pool: str
) -> None:
    async with member(pulsar, pool, "pulsar://b:6650") as b:
        async with member(pulsar, pool, "pulsar://a:6650") as a:
            await a.claiming.acquire(KEY)
            await a.fleet.leave()
            await until(lambda: len(b.fleet.members) == 1)
            with pytest.raises(OwnerUnavailableError, match="try again"):
                await b.claiming.acquire(KEY)
        assert (await b.claiming.acquire(KEY)).url == ""


async def test_a_broker_that_starts_again_takes_over_what_its_last_life_had(pulsar: Endpoints, pool: str) -> None:
    """As soon as the session of that life has ended, and not before: it might still deliver."""
    async with member(pulsar, pool, "pulsar://a:6650") as after:
        async with member(pulsar, pool, "pulsar://a:6650") as before:
            await before.claiming.acquire(KEY)
            asked = asyncio.create_task(after.claiming.acquire(KEY))
            done, _ = await asyncio.wait([asked], timeout=3 * EARLIER_POLL_S)
            assert not done
        assert (await asked).url == ""


@zookeeper_only
async def test_a_claim_that_follows_that_of_an_earlier_life_is_left_alone(
    pulsar: Endpoints, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old session ends, and another broker makes its claim, between a look at the old claim and what follows from it."""
    path = f"/pulsar-readonly/pools/{pool}/claims/one"
    url = pulsar.metadata_store
    async with opened_store(url) as again, opened_store(url) as other:
        async with opened_store(url) as before:
            assert (await before.claim(path, b"a")).session
            looked, proceed = asyncio.Event(), asyncio.Event()
            call = again._source._call

            async def look(function: Callable[..., Any], *args: object) -> Any:
                answer = await call(function, *args)
                if function == again._source._client.get_async and not looked.is_set():
                    looked.set()
                    await proceed.wait()
                return answer

            monkeypatch.setattr(again._source, "_call", look)
            claiming = asyncio.create_task(again.claim(path, b"a"))
            await looked.wait()
        taken = await other.claim(path, b"b")
        assert taken.session
        proceed.set()
        assert await claiming == (0, b"b")
        found = await other.get(path)
        assert found is not None
        assert found.value == b"b"
