"""What a consumer holds on this broker from its admission on: a place within the limits, and its part in a claim."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from readonly_engine.broker.consumer.services import Services
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.metadata.topic_name import TopicName


class AdmittedConsumer(Protocol):
    """A consumer that holds an AdmissionLease."""

    def unregister(self) -> None:
        """Leave this broker."""

    def close(self) -> Coroutine[object, object, object]:
        """Close the consumer where its cursor is kept."""


class AdmissionLease:
    """Acquires the place, then the claim, and gives each back once.

    The place is free when the consumer has left. The claim is free when the owner has processed the consumer's last acks, too:
    the next broker reads the owner's cursor.

    Args:
        services: the shared parts of the broker.
        topic: the consumer's topic.
        name: name of its subscription.

    Attributes:
        claim: the claim of the subscription, of this broker or of another one; None without one, and after its release.
        relayed_at: time (monotonic) when another broker of the pool relayed the consumer here; None if the client has connected
            directly.

    Raises:
        OwnerRefusedError: a limit is reached.
    """

    __slots__ = ("_at_end", "_closed", "_left", "_name", "_services", "_topic", "claim", "relayed_at")

    def __init__(self, services: Services, topic: TopicName, name: str) -> None:
        if refusal := services.limits.subscribe(topic, name):
            raise OwnerRefusedError(ServerError.ConsumerBusy, refusal)
        self._services = services
        self._topic = topic
        self._name = name
        self._left = False
        self._closed = False
        self._at_end: Callable[[], None] | None = None
        self.claim: ClaimHandle | None = None
        self.relayed_at: float | None = None

    async def acquire(self, key: ClaimKey) -> str:
        """Acquire a claim; return the URL of the broker that has it, empty for this one.

        Raises:
            OwnerUnavailableError: no broker serves the subscription now.
        """
        self.claim = await self._services.claim_store.acquire(key)
        return self.claim.url

    def on_relayed(self) -> None:
        """Remember that another broker of the pool relays the consumer here, and that the owner has admitted it."""
        self.relayed_at = time.monotonic()

    def on_arrived(self) -> None:
        """Count a client that has connected here, maybe after a redirect."""
        if self.claim is not None:
            self._services.pending_redirects.arrived(ClaimKey(self._topic, self._name))

    def end_admission(self, consumer: AdmittedConsumer | None, *, admitted: bool) -> None:
        """Give everything back unless the consumer was admitted, after its close where there is one."""
        if admitted:
            return
        if consumer is not None:
            consumer.unregister()
            self._services.spawn(consumer.close())
        else:
            self.leave()
            self.on_closed()

    def leave(self) -> None:
        """Give the place back, once, when the consumer has left."""
        self._left = True
        self._services.limits.leave(self._topic, self._name)
        if self.claim is not None and self.relayed_at is not None:
            self._services.pending_redirects.expect(
                ClaimKey(self._topic, self._name), self.relayed_at, time.monotonic()
            )
        self._end()

    def on_closed(self) -> None:
        """Give the claim back if the consumer has left: the owner has processed its acks, or the wait for that is over."""
        self._closed = True
        self._end()

    def call_at_end(self, callback: Callable[[], None]) -> None:
        """Call back when the claim is given back, at once if it was."""
        self._at_end = callback
        self._end()

    def _end(self) -> None:
        if not (self._left and self._closed):
            return
        callback, self._at_end = self._at_end, None
        if callback is not None:
            callback()
        claim, self.claim = self.claim, None
        if claim is not None:
            self._services.claim_store.release(claim)
