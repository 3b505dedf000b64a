"""A subscription at the owners that holds messages back until a stream has read them: retention waits for it.

It has no consumers, so owners send nothing. It moves with the commits of the stream, by requests to the admin API, and stays
before the first chunk of a message that is incomplete there. A property marks it; a subscription without this property is
somebody else's, and is never moved.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.tls import ClientTls
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.cursor_admin import CursorAdmin
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST, Position

from readonly_spark.errors import SourceError
from readonly_spark.plan.gather import gather_bounded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from readonly_spark.options import HoldOptions

log = logging.getLogger(__name__)

PROPERTY: Final = ("pulsar-readonly", "spark-hold")
"""Property of the subscriptions."""

MOVE_EVERY_S: Final = 5.0
"""Shortest time between two moves of all subscriptions, in seconds."""

MOVE_AGAIN_S: Final = 60.0
"""Time until the next move after a failed one, in seconds: each may wait for an admin API that does not answer."""

MAX_CONCURRENT: Final = 16
"""Concurrent requests."""


class RetentionSubscription:
    """The subscriptions of one stream, one for each topic or partition. Every method runs on one event loop.

    Args:
        options: name and admin API.
        keep: returns the first entry to hold back of a topic whose messages before a position are committed; None if that is
            unknown now. Any position before the current one leaves the subscription where it is.

    Raises:
        SourceError: the file of the token cannot be read.
    """

    def __init__(self, options: HoldOptions, keep: Callable[[str, Position], Awaitable[Position | None]]) -> None:
        self._name = options.subscription
        self._keep = keep
        tls = None if options.tls is None else ClientTls(options.tls)
        try:
            self._client = AdminClient(
                *options.urls, tls=tls, token_file=options.token_file, file_option="adminTokenFile"
            )
        except (OSError, ValueError) as error:
            raise SourceError(f"adminTokenFile: {error}") from error
        self._admin = CursorAdmin(self._client)
        self._next: dict[str, Position] = {}  # the next entry of each subscription
        self._ends: dict[str, Position] = {}  # the committed end that each was last moved for
        self._move_at = float("-inf")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ensure(self, starts: Mapping[str, Position]) -> dict[str, OwnerUnavailableError]:
        """Create the subscriptions of topics that this stream has not read before.

        Args:
            starts: the next entry of each topic; those that exist already stay where they are.

        Returns:
            The errors of topics whose subscriptions cannot be created now. After the first one, no more are tried.

        Raises:
            SourceError: a subscription of this name is somebody else's.
        """
        failed: dict[str, OwnerUnavailableError] = {}

        async def one(name: str) -> None:
            if failed:
                failed[name] = next(iter(failed.values()))
                return
            try:
                await self._ensure(name, starts[name])
            except OwnerUnavailableError as error:
                failed[name] = error

        await gather_bounded(one, sorted(starts.keys() - self._next.keys()), MAX_CONCURRENT)
        return failed

    async def _ensure(self, name: str, start: Position) -> None:
        topic = parse_topic_name(name)
        try:
            found = await self._admin.describe(topic, self._name)
        except OwnerRefusedError as error:
            raise OwnerUnavailableError(str(error)) from error  # the topic is about to be deleted, or to be made
        if found is None:
            made = await self._admin.create_subscription(topic, self._name, _before(start), dict([PROPERTY]))
            if made:
                self._next[name] = start
                return
            found = await self._admin.describe(topic, self._name)
        if found is None or PROPERTY not in found.properties or found.consumers:
            raise SourceError(
                f"holdSubscription: {topic} has a subscription {self._name} that this source did not make; use another name"
            )
        # An owner creates a subscription at the end of the topic, and then moves it. One that died in between left it at the end.
        state = await self._admin.cursor(topic, self._name)
        past = state.mark_delete is None or state.mark_delete > _before(start)
        if past and not await self._admin.move_subscription(topic, self._name, _before(start)):
            raise OwnerUnavailableError(f"subscription {self._name} of {topic} was deleted meanwhile")
        self._next[name] = start

    async def move(self, ends: Mapping[str, Position], *, now: bool = False) -> None:
        """Move the subscriptions to the committed end of the stream, at most once in MOVE_EVERY_S.

        A move that fails is repeated with a later one: messages are held a little longer.

        Args:
            ends: the next entry of each topic.
            now: whether to move them even if they were moved shortly before.
        """
        behind = sorted(
            name for name, end in ends.items() if name in self._next and self._ends.get(name, self._next[name]) < end
        )
        if not behind or (not now and time.monotonic() < self._move_at):
            return
        failed: list[str] = []

        async def one(name: str) -> None:
            if failed:
                return
            position = await self._keep(name, ends[name])
            if position is None:
                return
            try:
                if position > self._next[name]:
                    if not await self._admin.move_subscription(parse_topic_name(name), self._name, _before(position)):
                        log.warning("%s: subscription %s was deleted, and is made again", name, self._name)
                        del self._next[name]
                        self._ends.pop(name, None)
                        return
                    self._next[name] = position
            except OwnerUnavailableError as error:
                failed.append(name)
                log.warning("%s: subscription %s cannot be moved now: %s", name, self._name, error)
                return
            self._ends[name] = ends[name]

        await gather_bounded(one, behind, MAX_CONCURRENT)
        self._move_at = time.monotonic() + (MOVE_AGAIN_S if failed else MOVE_EVERY_S)


def _before(position: Position) -> Position:
    """Return the position before the next entry, which counts as acked."""
    return EARLIEST if position <= EARLIEST else Position(position.ledger_id, position.entry_id - 1)
