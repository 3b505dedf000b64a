"""Exclusive subscriptions whose client may be frozen: a second consumer gets in once the first has given no sign of life."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.consumer import OwnerConsumer
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe

log = logging.getLogger(__name__)

RELEASE_TIMEOUT_S: Final = 5.0
"""So long the owner may take to close the first consumer after its client was given up."""

POLL_INTERVAL_S: Final = 0.1


class ProbedClient(Protocol):
    """A client that can be asked for a sign of life."""

    async def is_alive(self) -> bool:
        """Return whether the client gives a sign of life in time; if not, its connection has ended."""


class ExclusiveConsumer(Protocol):
    """A consumer, as far as its exclusive access is concerned."""

    topic: TopicName
    owner_consumer: OwnerConsumer
    exclusive: bool

    @property
    def connection(self) -> ProbedClient:
        """The client's connection."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE."""


class ExclusiveConsumers:
    """The consumers of Exclusive subscriptions on this broker, by subscription."""

    def __init__(self) -> None:
        self._consumers: dict[tuple[TopicName, str], ExclusiveConsumer] = {}

    def add(self, consumer: ExclusiveConsumer) -> None:
        """The owner has accepted a consumer."""
        self._consumers[_key(consumer)] = consumer

    def remove(self, consumer: ExclusiveConsumer) -> None:
        """A consumer is closed."""
        if self._consumers.get(_key(consumer)) is consumer:
            del self._consumers[_key(consumer)]

    def other_holder(self, consumer: ExclusiveConsumer) -> ExclusiveConsumer | None:
        """The consumer of another client that has the subscription."""
        found = self._consumers.get(_key(consumer))
        return None if found is None or found.connection is consumer.connection else found


async def subscribe_at_owner(consumer: ExclusiveConsumer, exclusives: ExclusiveConsumers) -> BaseCommand:
    """Subscribe at the owner, after a frozen client that has the Exclusive subscription through this broker was given up.

    The owner asks this broker, which answers for its clients; so this broker asks the client (ServerCnx.checkConnectionLiveness).

    Args:
        consumer: the new consumer.
        exclusives: the consumers of Exclusive subscriptions on this broker.

    Raises:
        RelayError: as OwnerConsumer.subscribe.
    """
    try:
        return await consumer.owner_consumer.subscribe()
    except OwnerRefusedError as error:
        holder = exclusives.other_holder(consumer) if consumer.exclusive else None
        if error.code != ServerError.ConsumerBusy or holder is None or await holder.connection.is_alive():
            raise
    log.info("%s, %s: waiting for the owner to close a frozen client's consumer", *_key(consumer))
    deadline = asyncio.get_running_loop().time() + RELEASE_TIMEOUT_S
    while True:
        try:
            return await consumer.owner_consumer.subscribe()
        except OwnerRefusedError as error:
            if error.code != ServerError.ConsumerBusy or asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(POLL_INTERVAL_S)


def _key(consumer: ExclusiveConsumer) -> tuple[TopicName, str]:
    return consumer.topic, consumer.subscribe_command.subscription
