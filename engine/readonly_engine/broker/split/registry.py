"""The split subscriptions of one broker: makes them, connects members of others, and remembers those that can not be split."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.split.keys import KeyPolicy
from readonly_engine.broker.split.leases import LEASE_S
from readonly_engine.broker.split.runner import SINGLE_S, SplitRunner
from readonly_engine.broker.split.subscription import SplitSubscription
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.pool.claim_store import ClaimStore
    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.broker.split.leases import Run
    from readonly_engine.broker.split.subscription import Connect
    from readonly_engine.broker.subscription.parts import SubscriptionParts
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.broker.subscription.topics import TopicRegistry
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

MAX_SINGLE: Final = 10_000
"""Bound of such subscriptions; the one that was noted first is forgotten."""

MAX_COUNTED: Final = 1_000
"""Subscriptions whose redelivery counts are kept for a coordinator here; those that were noted first are forgotten."""

COUNTED_S: Final = 30.0
"""Time for which they are kept: the consumers that were closed come again within it."""

END_WAIT_S: Final = LEASE_S + 7.0
"""Time for an earlier part of this broker in a subscription to end: the leases, and then the last acks."""


class SplitSubscriptions:
    """See above.

    Args:
        pool: the pool, in which this broker's URL is its name as a member.
        claims: claims subscriptions.
        topics: the open topics.
        connect: makes a connection to a coordinator, for a consumer.
        clock: the time in seconds.
    """

    def __init__(
        self,
        pool: PoolMembership,
        claims: ClaimStore,
        topics: TopicRegistry,
        connect: Connect,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._claims = claims
        self._topics = topics
        self._connect = connect
        self._clock = clock
        self._runners: dict[ClaimKey, SplitRunner] = {}
        self._single: OrderedDict[ClaimKey, float] = OrderedDict()
        self._counts: OrderedDict[ClaimKey, tuple[float, tuple[Run, ...]]] = OrderedDict()

    # Admission

    def allows(self, key: ClaimKey) -> bool:
        """Return whether a subscription may be split, as far as this broker knows."""
        if (runner := self._runners.get(key)) is not None and runner.indivisible:
            self.serve_alone(key, SINGLE_S, "it has messages or acks that can not be split")
        until = self._single.get(key)
        if until is None:
            return True
        if self._clock() < until or (key not in self._runners and self._serves(key)):
            return False  # it serves the subscription alone as long as consumers stay
        del self._single[key]
        return True

    def _serves(self, key: ClaimKey) -> bool:
        """Return whether this broker may have consumers of a subscription that it serves alone."""
        return self._claims.serves(key) or self._topics.subscription(*key) is not None

    def serve_alone(self, key: ClaimKey, seconds: float, why: str) -> None:
        """Let one broker serve a subscription for a time."""
        if key not in self._single:
            log.warning("one broker serves a split subscription: topic=%s subscription=%s reason=%s", *key, why)
        self._single[key] = self._clock() + seconds
        self._single.move_to_end(key)
        if len(self._single) > MAX_SINGLE:
            self._single.popitem(last=False)

    def end_split(self, key: ClaimKey, why: str) -> None:
        """Let one broker serve a subscription, because a consumer that comes can not be split."""
        self.serve_alone(key, SINGLE_S, why)
        if (runner := self._runners.get(key)) is not None:
            runner.end_split()

    async def wait_ended(self, key: ClaimKey, *, split: bool) -> None:
        """Wait until an earlier part of this broker in a subscription has ended: other brokers may have leases of it.

        Args:
            key: the subscription.
            split: whether a consumer may join the present part.

        Raises:
            OwnerUnavailableError: it has not ended in END_WAIT_S.
        """
        runner = self._runners.get(key)
        if runner is None or (split and not runner.ending):
            return
        try:
            async with asyncio.timeout(END_WAIT_S):
                await runner.wait_ended()
        except TimeoutError:
            raise _not_now(key, "its leases have not ended") from None

    def make(
        self,
        key: ClaimKey,
        holder: str | None,
        parts: SubscriptionParts,
        on_unreadable: Callable[[Subscription, Position, str], None],
    ) -> SplitSubscription:
        """Make a subscription for its first consumer on this broker.

        Args:
            key: the subscription.
            holder: URL of the broker of the pool that holds its cursor; empty for this one, None if the owner has it.
            parts: its parts.
            on_unreadable: as in Subscription.

        Raises:
            OwnerUnavailableError: the former one has not ended.
        """
        if key in self._runners:
            raise _not_now(key, "its leases have not ended")
        until, counts = self._counts.pop(key, (0.0, ()))
        counts = counts if self._clock() < until else ()
        return SplitSubscription(parts, on_unreadable, partial(self._run, key), self._connect, holder, counts)

    def _run(self, key: ClaimKey, subscription: SplitSubscription) -> SplitRunner:
        runner = self._runners[key] = SplitRunner(
            key, self._pool.url, subscription, self._claims, self._topics.leaving, self.serve_alone, self._ended
        )
        return runner

    def _ended(self, runner: SplitRunner) -> None:
        if self._runners.get(runner.key) is runner:
            del self._runners[runner.key]
            if runner.redelivery_counts:
                self._counts[runner.key] = (self._clock() + COUNTED_S, runner.redelivery_counts)
                if len(self._counts) > MAX_COUNTED:
                    self._counts.popitem(last=False)

    # Members

    def coordinator(self, key: ClaimKey, name: str, subscribe: CommandSubscribe) -> SplitRunner:
        """Return the coordinator of a subscription for a member that connects.

        Args:
            key: the subscription.
            name: the member: URL of its broker.
            subscribe: the member's SUBSCRIBE, with the type and the policy of its consumers.

        Raises:
            OwnerUnavailableError: the member must look for the coordinator again.
            OwnerRefusedError: this broker serves the subscription alone.
        """
        runner = self._runners.get(key)
        if runner is None and (self._claims.serves(key) or not self.allows(key)):
            raise OwnerRefusedError(
                ServerError.NotAllowedError, f"{self._pool.url} serves {key.subscription} of {key.topic} alone"
            )
        if name not in self._pool.members or name == self._pool.url:
            raise _not_now(key, f"{name} is no other broker of the pool")
        if runner is None or not runner.coordinates or runner.kind != subscribe.sub_type:
            raise _not_now(key, f"{self._pool.url} does not coordinate it")
        if runner.policy != KeyPolicy.of(subscribe):
            raise _not_now(key, f"its last consumers at {self._pool.url} with another Key_Shared policy leave")
        return runner

    # Events of the broker

    def owns(self, key: ClaimKey) -> bool:
        """Return whether a claim is that of a split subscription."""
        return key in self._runners

    def claim_lost(self, key: ClaimKey) -> None:
        """Handle that another broker has a claim, or may have had it."""
        runner = self._runners.get(key)
        if runner is not None:
            runner.claim_lost()

    async def wait_all_ended(self) -> None:
        """Wait until the parts of this broker have ended whose consumers have left, for END_WAIT_S at most."""
        waits = [asyncio.ensure_future(runner.wait_ended()) for runner in self._runners.values() if runner.ending]
        if waits:
            _, late = await asyncio.wait(waits, timeout=END_WAIT_S)
            for wait in late:
                wait.cancel()


def _not_now(key: ClaimKey, why: str) -> OwnerUnavailableError:
    return OwnerUnavailableError(
        f"subscription {key.subscription} of {key.topic} can not be split now: {why}; try again"
    )
