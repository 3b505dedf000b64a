"""A broker's records and leases while the cluster's metadata move to another store. Both stores are played."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from readonly_engine.metadata import migratable as module
from readonly_engine.metadata.errors import MetadataUnavailableError, NotAdmittedError
from readonly_engine.metadata.lease import SessionLease
from readonly_engine.metadata.migratable import MigratableStore
from readonly_engine.metadata.migration import FLAG_PATH
from readonly_engine.metadata.store import Fence, Versioned

from .played import Server, store_on

CLAIM = "/pulsar-readonly/pools/p/claims/c"
MEMBER = "/pulsar-readonly/pools/p/brokers/b"
VALUE = "/pulsar-readonly/pools/p/acks/a"


class World:
    """A source, a target, and brokers on them."""

    def __init__(self, seed: int = 1) -> None:
        chance = random.Random(seed)
        self.source, self.target = Server(chance), Server(chance)
        self.brokers: list[MigratableStore] = []

    def broker(self) -> MigratableStore:
        """Return a broker's store, as if it had started."""
        made = MigratableStore(store_on(self.source), self._open_target)
        made._following = asyncio.get_running_loop().create_task(made._follow())
        self.brokers.append(made)
        return made

    def _open_target(self, _url: Any) -> Any:
        store: Any = store_on(self.target)

        async def start() -> None:
            await self.target._pause()
            if "Start" in self.target.refuses:
                raise MetadataUnavailableError("refused")

        store.start = start
        return store

    async def phase(self, phase: str, *brokers: MigratableStore) -> None:
        """Tell brokers a phase, and let them act."""
        value = json.dumps({"phase": phase, "targetUrl": "oxia://target:1/ns"}).encode()
        self.source.records[FLAG_PATH] = None  # type: ignore[assignment]
        del self.source.records[FLAG_PATH]
        for broker in brokers or self.brokers:
            broker._flag_changed(Versioned(value, 1))
        await settle()

    async def close(self) -> None:
        for broker in self.brokers:
            await broker.close()


async def settle() -> None:
    for _ in range(400):
        await asyncio.sleep(0)


@pytest.fixture
@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)


async def test_claims_and_members_are_carried_over(world):
    broker, leases = world.broker(), []

    def note(lease: SessionLease) -> None:
        leases.append(lease.session)

    broker.on_session(note)
    await broker.register(MEMBER, b"me")
    held = await broker.claim(CLAIM, b"me")
    await world.phase("PREPARATION")
    assert {CLAIM, MEMBER} <= world.target.records.keys()
    assert {CLAIM, MEMBER} <= world.source.records.keys()
    await world.phase("COPYING")
    await world.phase("COMPLETED")
    again = await broker.claim(CLAIM, b"me")
    assert again.session
    assert leases[-1] == again.session
    assert world.target.records[CLAIM].session == again.session - 1
    assert held.session


async def test_a_later_claim_of_a_broker_that_has_not_heard_is_refused(world):
    quick, late = world.broker(), world.broker()
    for phase in ("PREPARATION", "COPYING", "COMPLETED"):
        await world.phase(phase, quick)
    assert (await quick.claim(CLAIM, b"quick")).session
    assert await late.claim(CLAIM, b"late") == (0, b"quick")


@pytest.mark.parametrize("seed", range(60))
async def test_a_claim_has_one_holder_in_all_phases(seed):
    world = World(seed)
    brokers = [world.broker() for _ in range(3)]
    results: list[tuple[int, Any]] = []

    async def contend(number: int) -> None:
        await asyncio.sleep(0)
        results.append((number, await brokers[number].claim(CLAIM, f"{number}".encode())))

    async def migrate() -> None:
        for phase in ("PREPARATION", "COPYING", "COMPLETED"):
            for broker in random.Random(seed).sample(brokers, 3):
                await world.phase(phase, broker)

    moving = asyncio.create_task(migrate())
    await asyncio.gather(*(contend(number) for number in range(3)))
    await moving
    holders = [number for number, found in results if found.session]
    assert len(holders) <= 1
    again = [await broker.claim(CLAIM, f"{number}".encode()) for number, broker in enumerate(brokers)]
    assert sum(bool(found.session) for found in again) == 1
    await world.close()


async def test_writes_of_the_time_of_the_copy_are_repeated_in_the_target(world):
    broker = world.broker()
    await broker.put(VALUE, b"before")
    await broker.put(f"{VALUE}-2", b"before")
    await world.phase("PREPARATION")
    await broker.put(VALUE, b"during")
    await broker.remove(f"{VALUE}-2")
    await world.phase("COMPLETED")
    assert world.target.records[VALUE].value == b"during"
    assert f"{VALUE}-2" not in world.target.records
    await broker.put(VALUE, b"after")
    assert world.target.records[VALUE].value == b"after"
    assert world.source.records[VALUE].value == b"during"


async def test_remembered_writes_are_bounded(monkeypatch, world):
    monkeypatch.setattr(module, "MAX_RECENT", 3)
    broker = world.broker()
    for number in range(5):
        await broker.put(f"{VALUE}-{number}", b"")
    assert len(broker._recent) == 3
    monkeypatch.setattr(module, "RECENT_S", -1.0)
    await broker.put(VALUE, b"")
    assert not broker._recent


async def test_after_a_failed_migration_the_source_is_used_alone(world):
    broker = world.broker()
    await broker.claim(CLAIM, b"me")
    await world.phase("PREPARATION")
    assert CLAIM in world.target.records
    await world.phase("FAILED")
    assert CLAIM not in world.target.records
    assert (await broker.claim(f"{CLAIM}-2", b"me")).session
    assert f"{CLAIM}-2" not in world.target.records


async def test_a_target_that_does_not_answer_yet_is_tried_again(world):
    broker = world.broker()
    await broker.claim(CLAIM, b"me")
    world.target.refuses.add("Start")
    await world.phase("PREPARATION")
    assert (await broker.claim(f"{CLAIM}-2", b"me")).session
    world.target.refuses.clear()
    await settle()
    assert {CLAIM, f"{CLAIM}-2"} <= world.target.records.keys()


async def test_watches_go_on_in_the_target(world):
    broker, told, names = world.broker(), [], []
    await broker.put(VALUE, b"x")
    watch = broker.watch(VALUE, lambda found: told.append(None if found is None else (found.value, found.origin)))
    broker.watch_children("/pulsar-readonly/pools/p/acks", names.append)
    stopped = broker.watch(VALUE, told.append)
    stopped.stop()
    await settle()
    await world.phase("PREPARATION")
    await world.phase("COMPLETED")
    await settle()
    assert told == [(b"x", 0), (b"x", 1)]
    assert names == [frozenset({"a"})] * 2
    world.target.records[VALUE].value = b"y"
    world.target.records[VALUE].version += 1
    watch.refresh()
    await settle()
    assert told[2:] == [(b"y", 1)]
    assert broker._source.watches == [], "the watches have left the source"


async def test_a_registration_keeps_its_admission_in_the_target(world):
    broker = world.broker()

    async def admit() -> Fence:
        found = await broker.get(f"{MEMBER}-fence")
        return Fence(f"{MEMBER}-fence", b"me", None if found is None else found.version)

    await broker.register(MEMBER, b"me", admit)
    await world.phase("PREPARATION")
    await world.phase("COMPLETED")
    assert f"{MEMBER}-fence" in world.target.records


async def test_a_refused_registration_is_not_repeated(world):
    broker = world.broker()

    async def admit() -> Fence:
        raise NotAdmittedError("another pool")

    with pytest.raises(NotAdmittedError):
        await broker.register(MEMBER, b"me", admit)
    await world.phase("PREPARATION")
    assert MEMBER not in world.target.records


async def test_a_registration_that_is_refused_during_a_migration_leaves_nothing_in_the_target(world):
    broker, asked, answer = world.broker(), asyncio.Event(), asyncio.Event()

    async def admit() -> Fence:
        asked.set()
        await answer.wait()
        raise NotAdmittedError("another pool")

    registering = asyncio.create_task(broker.register(MEMBER, b"me", admit))
    await asked.wait()
    await world.phase("PREPARATION")
    assert MEMBER in world.target.records
    answer.set()
    with pytest.raises(NotAdmittedError):
        await registering
    assert MEMBER not in world.target.records


async def test_after_the_switch_each_change_of_the_lease_is_told_once(world):
    broker, leases = world.broker(), []
    broker.on_session(lambda lease: leases.append(lease.session))
    await broker.claim(CLAIM, b"me")
    await world.phase("PREPARATION")
    await world.phase("COMPLETED")
    del leases[:]
    target: Any = broker._target
    await target._session._beat()
    assert len(leases) == 1


async def test_the_check_of_writes_asks_the_store_in_use(world):
    broker = world.broker()
    world.target.refuses.add("Write")
    await broker.check_writable(MEMBER)
    world.source.refuses.add("Write")
    with pytest.raises(MetadataUnavailableError):
        await broker.check_writable(MEMBER)
