"""Which broker of a pool has which partition of local cursors: brokers that share nothing but the members and the claims."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from readonly_engine.broker.cursors import local_cursors, topic_backend
from readonly_engine.broker.cursors.local_cursors import LocalCursors
from readonly_engine.broker.cursors.partitions import topic_properties
from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.broker.cursors.topic_backend import TopicBackend
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.cursor_admin import PartitionedTopic
from readonly_engine.owner.errors import OwnerUnavailableError

from tests.support.waiting import until

TOPIC = parse_topic_name("persistent://tenant/space/orders")
PARTITIONS = 16


class _Pool:
    """The members and the claims of a pool, and its brokers."""

    def __init__(self) -> None:
        self.members: dict[str, None] = {}
        self.claims: dict[ClaimKey, str] = {}
        self.brokers: dict[str, LocalCursors] = {}
        self.reads = 0

    def join(self, url: str) -> None:
        self.members[url] = None
        self.brokers[url] = LocalCursors(
            TopicBackend(
                client=lambda: None,
                admin=SimpleNamespace(partitioned=self._partitioned),
                access=SimpleNamespace(close=lambda: None),
                identity="pool",
                partitions=PARTITIONS,
                is_bound=lambda _: True,
                stored_topic=None,
                policies_of=None,
            ),
            claims=_Claims(self, url),
            pool=SimpleNamespace(identity="pool", url=url, members=self.members),
        )

    async def die(self, url: str) -> None:
        del self.members[url]
        broker = self.brokers.pop(url)
        if broker._returning is not None:
            broker._returning.cancel()
        for key in [key for key, holder in self.claims.items() if holder == url]:
            del self.claims[key]

    @staticmethod
    async def _partitioned(_: object) -> PartitionedTopic:
        return PartitionedTopic(PARTITIONS, topic_properties("pool", PARTITIONS))

    async def subscribe(self) -> None:
        """Connect a client to each partition, by any broker."""
        ask = list(self.brokers.values())
        for number in range(200):
            key = await ask[number % len(ask)].key_of(TOPIC, f"s{number}")
            if key not in self.claims:
                broker = ask[number % len(ask)]
                for _ in range(20):  # what brokers know of each other is up to PLACE_S old
                    url = await broker.place(key)
                    if not url:
                        break
                    broker = self.brokers[url]
                    assert await broker.key_of(TOPIC, f"s{number}") == key
                else:
                    raise AssertionError("the brokers do not agree")
                await broker.open(key)

    @property
    def shares(self) -> dict[str, int]:
        return {url: len(broker.held) for url, broker in self.brokers.items()}


class _Claims:
    """The claims of one broker."""

    def __init__(self, pool: _Pool, url: str) -> None:
        self._pool, self._url = pool, url

    async def holder(self, key: ClaimKey) -> str:
        self._pool.reads += 1
        await asyncio.sleep(0)
        return self._pool.claims.get(key, "")

    async def acquire(self, key: ClaimKey) -> SimpleNamespace:
        holder = self._pool.claims.setdefault(key, self._url)
        return SimpleNamespace(key=key, url="" if holder == self._url else holder)

    def release(self, claim: SimpleNamespace) -> None:
        self._pool.claims.pop(claim.key, None)

    def is_valid(self, _: object) -> bool:
        return True

    serves = is_valid


class _Store:
    lost = ""

    def __init__(self, *_: object) -> None:
        pass

    def __len__(self) -> int:
        return 0

    async def open(self) -> None:
        pass


class _Partition:
    def __init__(self, store: _Store, *_: object, **__: object) -> None:
        self.store = store

    async def end(self, _: str) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> _Pool:
    for name, value in {
        "PLACE_S": 0.01,
        "RETURN_S": 0.02,
        "RETURN_INTERVAL_S": 0.005,
    }.items():
        monkeypatch.setattr(local_cursors, name, value)
    for name, made in {"CursorStore": _Store, "HeldPartition": _Partition}.items():
        monkeypatch.setattr(topic_backend, name, made)
    return _Pool()


def test_a_death_moves_no_other_partition_and_a_new_broker_gets_its_share(pool: _Pool) -> None:
    asyncio.run(_play(pool))


async def _play(pool: _Pool) -> None:
    for number in range(4):
        pool.join(f"pulsar://broker-{number}:6650")
    await pool.subscribe()
    assert set(pool.shares.values()) == {4}

    before = dict(pool.claims)
    await pool.die("pulsar://broker-0:6650")
    await pool.subscribe()
    assert sorted(pool.shares.values()) == [5, 5, 6]
    moved = [key for key, url in before.items() if url in pool.members and pool.claims[key] != url]
    assert not moved
    await _settled(pool)
    assert sorted(pool.shares.values()) == [5, 5, 6], "brokers gave partitions away that nobody else should have"

    pool.join("pulsar://broker-4:6650")
    before = dict(pool.claims)
    await until(lambda: len(pool.claims) == 12 and pool.shares["pulsar://broker-4:6650"] == 0)
    await pool.subscribe()
    assert set(pool.shares.values()) == {4}
    assert sum(pool.claims[key] != url for key, url in before.items()) == 4
    for url in list(pool.brokers):
        await pool.die(url)


async def _settled(pool: _Pool) -> None:
    """Wait until no broker looks for partitions to give away."""
    reads = -1

    async def still() -> bool:
        nonlocal reads
        before, reads = reads, pool.reads
        await asyncio.sleep(0.1)
        return before == pool.reads

    for _ in range(100):
        if await still():
            return
    raise AssertionError("the claims are read again and again")


@pytest.mark.parametrize("end", ["close", "disconnect"])
@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("silent", [True, False])
async def test_the_end_of_the_broker_ends_what_is_being_opened(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch, end: str, stays: bool, silent: bool
) -> None:
    """A client that closes fails what it reads: no error of the store, also if the consumer that asked has left before."""
    read, states = asyncio.Event(), []

    class Reading(_Store):
        async def open(self) -> None:
            try:
                await read.wait()
            except asyncio.CancelledError:
                states.append("cancelled")
                if not silent:
                    raise
                await read.wait()  # its Reader closes when the client does
            raise CursorStoreError("AlreadyClosed")

    class Client:
        async def close(self) -> None:
            states.append("client closed")
            read.set()
            await asyncio.sleep(0)

    monkeypatch.setattr(topic_backend, "CursorStore", Reading)
    monkeypatch.setattr(local_cursors, "CANCEL_S", 0.05 if silent else 10.0)
    unexpected: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
    pool.join("pulsar://broker-0:6650")
    broker = pool.brokers["pulsar://broker-0:6650"]
    broker._backend._make_client = Client
    key = await broker.key_of(TOPIC, "s")
    asked = asyncio.create_task(broker.open(key))
    await until(lambda: broker._backend._client is not None)
    if not stays:
        asked.cancel()
    await getattr(broker, end)()
    with pytest.raises(OwnerUnavailableError if stays else asyncio.CancelledError):
        await asked
    with pytest.raises(OwnerUnavailableError):
        await broker.open(key)
    del asked
    gc.collect()
    assert (states, pool.claims, unexpected) == (["cancelled", "client closed"], {}, [])
