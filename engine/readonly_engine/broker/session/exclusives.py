"""Takeover of Exclusive subscriptions: a second consumer is admitted if the client of the first does not answer a PING."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe

log = logging.getLogger(__name__)

RELEASE_TIMEOUT_S: Final = 5.0
"""Time for the owner to close the first consumer after its client was disconnected."""

POLL_INTERVAL_S: Final = 0.1


class ProbedClient(Protocol):
    """A client's connection that can be probed."""

    async def is_alive(self) -> bool:
        """Probe the client; return whether it sent anything in time. If not, its connection was closed."""


class ExclusiveConsumer(Protocol):
    """Interface of a consumer for its exclusive access."""

    topic: TopicName
    owner_consumer: CursorConsumer
    exclusive: bool

    @property
    def connection(self) -> ProbedClient:
        """The client's connection."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The SUBSCRIBE of the client."""


class ExclusiveConsumers:
    """The consumers of Exclusive subscriptions on this broker, by subscription."""

    def __init__(self) -> None:
        self._consumers: dict[tuple[TopicName, str], ExclusiveConsumer] = {}

    def add(self, consumer: ExclusiveConsumer) -> None:
        """Add a consumer after its admission."""
        self._consumers[_key(consumer)] = consumer

    def remove(self, consumer: ExclusiveConsumer) -> None:
        """Remove a closed consumer; ignore one that was replaced."""
        if self._consumers.get(_key(consumer)) is consumer:
            del self._consumers[_key(consumer)]

    def other_holder(self, consumer: ExclusiveConsumer) -> ExclusiveConsumer | None:
        """Return the consumer of another client that holds the subscription; None without one."""
        found = self._consumers.get(_key(consumer))
        return None if found is None or found.connection is consumer.connection else found


async def subscribe_at_owner(consumer: ExclusiveConsumer, exclusives: ExclusiveConsumers) -> BaseCommand:
    """Subscribe on the owner. If a frozen client of this broker holds the Exclusive subscription, disconnect that client first.

    The owner's own check (ServerCnx.checkConnectionLiveness) reaches only this broker, so this broker probes the client.

    Args:
        consumer: the new consumer.
        exclusives: the consumers of Exclusive subscriptions on this broker.

    Returns:
        The owner's answer.

    Raises:
        RelayError: as CursorConsumer.subscribe.
    """
    try:
        return await consumer.owner_consumer.subscribe()
    except OwnerRefusedError as error:
        holder = exclusives.other_holder(consumer) if consumer.exclusive else None
        if error.code != ServerError.ConsumerBusy or holder is None or await holder.connection.is_alive():
            raise
    log.info("waiting for the owner to close a frozen client's consumer: topic=%s subscription=%s", *_key(consumer))
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
