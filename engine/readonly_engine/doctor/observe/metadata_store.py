"""Reads of the metadata store, and dry runs of the pool's writes. Nothing is written."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from readonly_engine.broker.pool.membership import POOLS_PATH, decode_member
from readonly_engine.doctor.checks.failure import Failure, FailureKind
from readonly_engine.doctor.checks.metadata_store import ACTIVE_BROKERS, NodeAnswer, ReadPath, StoreAnswers, read_paths
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.metadata.connect import BOOKIES_STORE
from readonly_engine.metadata.errors import MetadataError

if TYPE_CHECKING:
    from readonly_engine.doctor.clients import Clients
    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.metadata.connect import ClusterStores
    from readonly_engine.metadata.store import MetadataStore

CONNECT_S: Final = 15.0
"""Limit of the connection, whose own is 10 s for each of the two stores."""

WRITTEN: Final = ("brokers", "claims")
"""Folders of a pool in which brokers create nodes."""


async def connect_stores(clients: Clients, deadline: Deadline) -> Failure | None:
    """Connect to the metadata stores; return the reason why they cannot be used, None for a success."""
    if clients.stores is None:
        return Failure(FailureKind.OTHER, "not checked: its files cannot be used")
    try:
        async with deadline.request(CONNECT_S):
            await clients.stores.start()
    except (MetadataError, TimeoutError) as error:
        return failure_of(error)
    return None


async def ask_store(clients: Clients, failure: Failure | None, deadline: Deadline) -> StoreAnswers:
    """Read the nodes that brokers read, and check their writes.

    Args:
        clients: the stores are connected, or have failed.
        failure: the result of `connect_stores`.
        deadline: deadline of each request.
    """
    config = clients.config
    if failure is not None or clients.stores is None:
        of_bookies = failure is not None and failure.text.startswith(BOOKIES_STORE)
        url = config.bookkeeper_metadata_store_url if of_bookies else None
        return StoreAnswers(url or config.metadata_store_url, failure, of_bookies=of_bookies)
    stores = clients.stores
    locality = bool(config.locality) or config.locality_file is not None
    folder = f"{POOLS_PATH}/{quote(config.pool, safe='')}"
    reads, writes, members = await asyncio.gather(
        asyncio.gather(*(_read(stores, node, deadline) for node in read_paths(locality=locality))),
        asyncio.gather(*(_check_write(stores.main, f"{folder}/{name}", deadline) for name in WRITTEN)),
        _members(stores.main, f"{folder}/brokers", deadline),
    )
    found, members_failure = members
    return StoreAnswers(config.metadata_store_url, None, reads, dict(writes), found, members_failure)


async def registered_brokers(clients: Clients, failure: Failure | None, deadline: Deadline) -> frozenset[str] | None:
    """Return the names of the brokers that are registered in the store; None if it cannot be used, or refuses.

    Args:
        clients: the stores are connected, or have failed.
        failure: the result of `connect_stores`.
        deadline: deadline of the request.
    """
    if failure is not None or clients.stores is None:
        return None
    try:
        async with deadline.request():
            return frozenset(await clients.stores.main.children(ACTIVE_BROKERS) or ())
    except (MetadataError, TimeoutError):
        return None


async def _read(stores: ClusterStores, node: ReadPath, deadline: Deadline) -> NodeAnswer:
    store = stores.bookkeeper if node.of_bookies else stores.main
    try:
        async with deadline.request():
            return NodeAnswer(node, await store.children(node.path) is not None)
    except (MetadataError, TimeoutError) as error:
        return NodeAnswer(node, failure=failure_of(error))


async def _check_write(store: MetadataStore, folder: str, deadline: Deadline) -> tuple[str, Failure | None]:
    try:
        async with deadline.request():
            await store.check_writable(f"{folder}/doctor-{uuid.uuid4().hex}")
    except (MetadataError, TimeoutError) as error:
        return folder, failure_of(error)
    return folder, None


async def _members(
    store: MetadataStore, folder: str, deadline: Deadline
) -> tuple[dict[str, str | None] | None, Failure | None]:
    """Return the live brokers of pools of this name with their pools' uids, or the reason why they are unknown."""
    found: dict[str, str | None] = {}
    try:
        async with deadline.request():
            for name in sorted(await store.children(folder) or ()):
                node = await store.get(f"{folder}/{name}")
                if node is not None:
                    member = decode_member(unquote(name), node.value)
                    found[member.url] = member.pool_uid
    except (MetadataError, TimeoutError) as error:
        return None, failure_of(error)
    return found, None
