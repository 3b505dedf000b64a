"""Who may consume in a replay, and where cursors begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.broker.cursors.owner_access import Authorized, OwnerAccess
    from readonly_engine.broker.replay.positions import ReplayPositions
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.identity import Identity
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import BaseCommand

_AUTHORIZED: Final = frozenset({ServerError.NotAllowedError, ServerError.ConsumerBusy, ServerError.IncompatibleSchema})
"""Refusals of an owner that come after its authorization (ServerCnx.handleSubscribe): of its own subscription of that name, or
of a schema, which the replay does not compare."""


class ReplayAccess:
    """Lets owners authorize consumers where the source cluster does that; everything else is known here (Access).

    Args:
        owners: asks owners.
        authorizes: returns whether the source cluster authorizes clients; None if unknown.
        positions: places in the topics.

    Attributes:
        positions: as above.
    """

    def __init__(
        self, owners: OwnerAccess, authorizes: Callable[[], Awaitable[bool | None]], positions: ReplayPositions
    ) -> None:
        self._owners = owners
        self._authorizes = authorizes
        self._consumers: dict[Authorized, bool] = {}  # whether the owner is asked again from time to time
        self._asked = True
        self.positions = positions

    async def authorize(self, consumer: Authorized) -> None:
        """Check that a client may consume.

        Raises:
            RelayError: the owner refuses the client, or does not answer.
        """
        self._asked = await self._authorizes() is not False
        if self._asked:
            try:
                await self._owners.subscribe(consumer, new=False)
            except OwnerRefusedError as error:
                if error.code not in _AUTHORIZED:
                    raise

    async def begin_at(self, consumer: Authorized, position: Position) -> Position:
        """Return the mark-delete position of a cursor that reads a position next, or the nearest one of the replay.

        Raises:
            RelayError: the topic cannot be read now.
        """
        return await self.positions.begin_at(consumer.topic, position)

    async def last(self, consumer: Authorized) -> BaseCommand:
        """Return the answer to GET_LAST_MESSAGE_ID.

        Raises:
            RelayError: the topic cannot be read now.
        """
        return await self.positions.last(consumer.topic)

    def connection(self, topic: TopicName, identity: Identity) -> OwnerConnection | None:
        """Return None: nothing is read from owners."""
        del topic, identity
        return None

    def add(self, consumer: Authorized) -> None:
        """Ask the owner again from time to time whether a consumer may consume, where it authorizes."""
        self._consumers[consumer] = self._asked
        if self._asked:
            self._owners.add(consumer)

    def remove(self, consumer: Authorized) -> bool:
        """Forget a consumer; return whether it was added."""
        asked = self._consumers.pop(consumer, None)
        if asked:
            self._owners.remove(consumer)
        return asked is not None

    def close(self) -> None:
        """Ask no owners any more."""
        self._owners.close()
