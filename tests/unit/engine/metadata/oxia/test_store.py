"""Claims and registrations of Oxia under many interleavings."""

import asyncio
import random

import pytest
from readonly_engine.metadata.errors import MetadataUnavailableError, NotAdmittedError
from readonly_engine.metadata.oxia import store as module
from readonly_engine.metadata.oxia.store import OxiaStore
from readonly_engine.metadata.store import Fence

from .played import Server, store_on

POOL = "/pulsar-readonly/pools/p"
SEEDS = range(150)


async def joined(store: OxiaStore, uid: str, url: str) -> bool:
    """Register as PoolMembership does: not beside a broker of another uid."""

    async def admit() -> Fence:
        found = await store.get(f"{POOL}/identity")
        if found is None or found.value != uid.encode():
            for name in sorted(await store.children(f"{POOL}/brokers") or ()):
                node = await store.get(f"{POOL}/brokers/{name}")
                if node is not None and node.value != uid.encode():
                    raise NotAdmittedError(f"{name} is of another pool")
        return Fence(f"{POOL}/identity", uid.encode(), None if found is None else found.version)

    try:
        await store.register(f"{POOL}/brokers/{url}", uid.encode(), admit)
    except NotAdmittedError:
        return False
    return True


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONTENTION_S", 0.0)
    monkeypatch.setattr(module, "EARLIER_POLL_S", 0.0)


@pytest.mark.parametrize("seed", SEEDS)
async def test_brokers_of_two_pools_never_join_together(seed):
    server = Server(random.Random(seed))
    stores = [store_on(server) for _ in range(4)]
    outcome = await asyncio.gather(
        *(joined(store, "ab"[number % 2], f"broker-{number}") for number, store in enumerate(stores))
    )
    uids = {"ab"[number % 2] for number, ok in enumerate(outcome) if ok}
    assert len(uids) <= 1
    held = {one.value for key, one in server.records.items() if key.startswith(f"{POOL}/brokers/")}
    assert held == {uid.encode() for uid in uids}
    for store in stores:
        await store.close()


@pytest.mark.parametrize("seed", SEEDS[:40])
async def test_all_brokers_of_one_pool_join(seed):
    server = Server(random.Random(seed))
    stores = [store_on(server) for _ in range(5)]
    assert all(await asyncio.gather(*(joined(store, "a", f"b{number}") for number, store in enumerate(stores))))
    for store in stores:
        await store.close()


@pytest.mark.parametrize("seed", SEEDS[:40])
async def test_a_claim_has_one_holder(seed):
    server = Server(random.Random(seed))
    stores = [store_on(server) for _ in range(4)]
    found = await asyncio.gather(
        *(store.claim("/pulsar-readonly/c", f"{n}".encode()) for n, store in enumerate(stores))
    )
    holders = [number for number, one in enumerate(found) if one.session]
    assert len(holders) == 1
    assert {one.value for one in found if not one.session} == {f"{holders[0]}".encode()}
    for number, store in enumerate(stores):
        if number not in holders:
            await store.release("/pulsar-readonly/c")
    assert "/pulsar-readonly/c" in server.records
    await stores[holders[0]].release("/pulsar-readonly/c")
    assert "/pulsar-readonly/c" not in server.records
    for store in stores:
        await store.close()


async def test_a_claim_of_an_earlier_session_is_waited_for_not_replaced():
    server = Server(random.Random(1))
    before, after = store_on(server), store_on(server)
    held = await before.claim("/pulsar-readonly/c", b"me")
    again = asyncio.create_task(after.claim("/pulsar-readonly/c", b"me"))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not again.done()
    server.end(held.session - 1)
    assert (await again).session not in {0, held.session}
    for store in (before, after):
        await store.close()


async def test_a_registered_record_replaces_that_of_an_earlier_session():
    server = Server(random.Random(1))
    before, after = store_on(server), store_on(server)
    for store in (before, after):
        await store.register("/pulsar-readonly/r", b"me")
    assert server.records["/pulsar-readonly/r"].session == after._session.number - 1
    await before._session.close()
    assert "/pulsar-readonly/r" in server.records, "the end of the earlier session removed a later one's record"
    await after.close()


async def test_an_update_after_the_end_of_the_session_asks_for_admission_again():
    server = Server(random.Random(1))
    store, other = store_on(server), store_on(server)
    assert await joined(store, "a", "broker")
    server.end(store._session.number - 1)
    assert await joined(other, "b", "other")
    with pytest.raises(NotAdmittedError):
        await store.update(f"{POOL}/brokers/broker", b"a")
    assert f"{POOL}/brokers/broker" not in server.records
    for one in (store, other):
        await one.close()


async def test_records_outside_the_own_root_are_not_written():
    store = store_on(Server(random.Random(1)))
    for write in (store.put("/managed-ledgers/x", b""), store.remove("/admin/x"), store.claim("/x", b"")):
        with pytest.raises(ValueError, match="must not be written"):
            await write
    with pytest.raises(ValueError, match="must not be written"):
        await store.register("/pulsar-readonly", b"")


async def test_known_parents_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_KNOWN_PARENTS", 3)
    server = Server(random.Random(1))
    store = store_on(server)
    for number in range(5):
        await store.put(f"/pulsar-readonly/{number}/x", b"")
    assert len(store._parents) == 3
    assert {f"/pulsar-readonly/{number}" for number in range(5)} < server.records.keys()


async def test_the_check_of_writes_changes_nothing():
    server = Server(random.Random(1))
    store = store_on(server)
    await store.put(f"{POOL}/acks/a", b"1")
    before = dict(server.records)
    await store.check_writable(f"{POOL}/brokers/x")
    await store.check_writable(f"{POOL}/acks/a")
    unchanged = server.records == before
    with pytest.raises(ValueError, match="must not be written"):
        await store.check_writable("/managed-ledgers/x")
    server.refuses.add("Write")
    with pytest.raises(MetadataUnavailableError):
        await store.check_writable(f"{POOL}/brokers/x")
    await store.close()
    assert unchanged
