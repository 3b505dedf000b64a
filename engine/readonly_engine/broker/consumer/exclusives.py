"""Takeover of Exclusive subscriptions and of sticky ranges: a consumer is admitted if the one before does not answer a PING."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMode, ServerError

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.wire.pulsar_pb2 import BaseCommand
    from readonly_engine.wire.subscribe_info import SubscribeInfo

log = logging.getLogger(__name__)

RELEASE_TIMEOUT_S: Final = 5.0
"""Time for the owner to close the first consumer after its client was disconnected."""

POLL_INTERVAL_S: Final = 0.1

# Constants of the module: a lookup through the message class takes longer than the rest of the comparison.
_EXCLUSIVE, _KEY_SHARED, _STICKY = CommandSubscribe.Exclusive, CommandSubscribe.Key_Shared, KeySharedMode.STICKY

_TAKEN: Final = (ServerError.ConsumerBusy, ServerError.ConsumerAssignError)
"""The owner's refusals because of another consumer; the second one is that of a range of hashes."""


def is_exclusive(subscribe: CommandSubscribe) -> bool:
    """Return whether a consumer keeps others out of its subscription, or of its ranges of hashes."""
    kind = subscribe.sub_type
    return kind == _EXCLUSIVE or (kind == _KEY_SHARED and subscribe.key_shared_meta.key_shared_mode == _STICKY)


def excludes(one: CommandSubscribe, other: CommandSubscribe) -> bool:
    """Return whether one of two exclusive consumers of a subscription keeps the other out."""
    if CommandSubscribe.Exclusive in {one.sub_type, other.sub_type}:
        return True
    return any(
        max(own.start, found.start) <= min(own.end, found.end)
        for own in one.key_shared_meta.hash_ranges
        for found in other.key_shared_meta.hash_ranges
    )


class ProbedClient(Protocol):
    """A client's connection that can be probed."""

    async def is_alive(self) -> bool:
        """Probe the client; return whether it sent anything in time. If not, its connection was closed."""


class ExclusiveConsumer(Protocol):
    """Interface of a consumer for its exclusive access."""

    topic: TopicName
    info: SubscribeInfo
    owner_consumer: CursorConsumer
    exclusive: bool

    @property
    def connection(self) -> ProbedClient:
        """The client's connection."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The SUBSCRIBE of the client, decoded at each access."""

    async def detach(self) -> None:
        """Leave the subscription and close the consumer on the owner."""


class ExclusiveConsumers:
    """The exclusive consumers on this broker, by subscription."""

    def __init__(self) -> None:
        # As a rule a topic has one, and a key of topic and name takes more memory than the rest.
        self._first: dict[TopicName, ExclusiveConsumer] = {}
        self._more: dict[tuple[TopicName, str], list[ExclusiveConsumer]] = {}

    def add(self, consumer: ExclusiveConsumer) -> None:
        """Add a consumer after its admission."""
        if self._first.setdefault(consumer.topic, consumer) is not consumer:
            self._more.setdefault(_key(consumer), []).append(consumer)

    def remove(self, consumer: ExclusiveConsumer) -> None:
        """Remove a closed consumer; ignore one that was not added."""
        if self._first.get(consumer.topic) is consumer:
            del self._first[consumer.topic]
            return
        key = _key(consumer)
        left = [one for one in self._more.pop(key, ()) if one is not consumer]
        if left:
            self._more[key] = left

    def others(self, consumer: ExclusiveConsumer) -> list[ExclusiveConsumer]:
        """Return the consumers of other clients that keep a consumer out."""
        first = self._first.get(consumer.topic)
        present = [*([first] if first is not None else []), *self._more.get(_key(consumer), ())]
        return [
            one
            for one in present
            if one.info.name == consumer.info.name
            and one.connection is not consumer.connection
            and excludes(one.subscribe_command, consumer.subscribe_command)
        ]


async def subscribe_at_owner(consumer: ExclusiveConsumer, exclusives: ExclusiveConsumers) -> BaseCommand:
    """Subscribe on the owner. If only frozen clients of this broker keep the consumer out, disconnect them first.

    The owner's own check (ServerCnx.checkConnectionLiveness) reaches only this broker, so this broker probes the clients.

    Args:
        consumer: the new consumer.
        exclusives: the exclusive consumers on this broker.

    Returns:
        The owner's answer.

    Raises:
        RelayError: as CursorConsumer.subscribe.
    """
    try:
        return await consumer.owner_consumer.subscribe()
    except OwnerRefusedError as error:
        if not consumer.exclusive or error.code not in _TAKEN:
            raise
        others = exclusives.others(consumer)
        connections = {one.connection for one in others}
        if not connections or any(await asyncio.gather(*(one.is_alive() for one in connections))):
            raise
    # Their clients are lost, maybe with thousands of other consumers that are closed first (ClosingConsumers).
    with suppress(TimeoutError):
        async with asyncio.timeout(RELEASE_TIMEOUT_S):
            await asyncio.gather(*(one.detach() for one in others), return_exceptions=True)
    log.info("waiting for the owner to close a frozen client's consumer: topic=%s subscription=%s", *_key(consumer))
    deadline = asyncio.get_running_loop().time() + RELEASE_TIMEOUT_S
    while True:
        try:
            return await consumer.owner_consumer.subscribe()
        except OwnerRefusedError as error:
            if error.code not in _TAKEN or asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(POLL_INTERVAL_S)


def _key(consumer: ExclusiveConsumer) -> tuple[TopicName, str]:
    return consumer.topic, consumer.info.name
