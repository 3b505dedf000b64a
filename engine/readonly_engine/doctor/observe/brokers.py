"""Handshakes with the hosts of the service URL, and lookups of topics' owners."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.brokers import BrokerHandshake, OwnerLookup
from readonly_engine.doctor.checks.failure import Failure, FailureKind
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.doctor.clients import Clients
    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.metadata.topic_name import TopicName

MAX_CONCURRENT_LOOKUPS: Final = 8


async def shake_hands(clients: Clients, deadline: Deadline) -> list[BrokerHandshake]:
    """Open a connection to each host of the service URL with the pool's own credentials, and close it."""
    return list(await asyncio.gather(*(_shake_hands(clients, url, deadline) for url in clients.config.service_urls)))


async def _shake_hands(clients: Clients, url: str, deadline: Deadline) -> BrokerHandshake:
    if clients.identity is None or (clients.tls is None and clients.config.broker_tls is not None):
        return BrokerHandshake(url, Failure(FailureKind.OTHER, "not checked: its credentials or files cannot be used"))
    directory = clients.directory(url)
    try:
        async with deadline.request():
            connection = await directory.any_broker(clients.identity)
        connected = connection.handshake
        return BrokerHandshake(url, None, connected.server_version, connected.protocol_version)
    except (RelayError, TimeoutError) as error:
        return BrokerHandshake(url, failure_of(error))
    finally:
        directory.close()


async def look_up_owners(topics: Sequence[TopicName], clients: Clients, deadline: Deadline) -> list[OwnerLookup]:
    """Look the owners of topics up as clients do, and connect to them. It subscribes to nothing and creates no topic."""
    if clients.identity is None or not topics:
        return []
    identity = clients.identity
    directory = clients.directory(*clients.config.service_urls)
    slots = asyncio.Semaphore(MAX_CONCURRENT_LOOKUPS)

    async def look_up(topic: TopicName) -> OwnerLookup:
        try:
            async with slots, deadline.request():
                connection = await directory.owner_of(str(topic), identity)
        except (RelayError, TimeoutError) as error:
            return OwnerLookup(str(topic), failure=failure_of(error))
        return OwnerLookup(str(topic), connection.url)

    try:
        return list(await asyncio.gather(*map(look_up, topics)))
    finally:
        directory.close()
