"""The way on which a consumer is served. Pure: admission gathers what decides, in the order of `choose_route`'s arguments.

| way | messages | cursor |
|---|---|---|
| Served | from storage, by this broker | on the owner |
| Local | from storage, by this broker | in a partition of this broker |
| Leased | from storage, by this broker, as far as another one leases them | in a partition of that broker |
| Relay | through another broker of the pool | where that broker has it |
| Passthrough | from the owner | on the owner |
| AtOwner | from the owner, to which the client is redirected | on the owner |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.broker.cursors.local_requests import LocalRequest
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

if TYPE_CHECKING:
    from readonly_engine.config.listeners import Urls
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.subscribe_info import SubscribeInfo

CLAIMED_TYPES: Final = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
"""Subscription types that one broker of the pool must dispatch, or coordinate. For the others the owner selects the consumer."""

_OF_EXISTING: Final = frozenset({LocalRequest.EXPORT, LocalRequest.EXISTING, LocalRequest.FORCE})
"""Requests about local subscriptions that exist."""


class CursorPlace(Enum):
    """The place of a subscription's cursor."""

    OWNER = "on the owner"
    POOL = "in the pool"
    POOL_BEFORE = "in the pool from before: the owner keeps it now, but it can still be exported or deleted here"


class Placement(NamedTuple):
    """What bindings and cursors say about a consumer.

    Attributes:
        topic: its topic.
        info: the lasting fields of its SUBSCRIBE.
        bound: whether a binding names the subscription. An unbound topic comes from a lookup before a change of bindings, or
            because the pool relays unbound topics. An unbound subscription of a bound topic comes because a lookup does not
            name the subscription.
        cursor: place of the cursor.
        request: request about a local subscription; None without one.
        split: whether every broker of the pool serves its own consumers of the subscription.
    """

    topic: TopicName
    info: SubscribeInfo
    bound: bool
    cursor: CursorPlace
    request: LocalRequest | None = None
    split: bool = False

    @property
    def local(self) -> bool:
        """Whether the cursor is in the pool."""
        return self.cursor is not CursorPlace.OWNER

    @property
    def of_pool(self) -> bool:
        """Whether the pool is in charge of the subscription, so that its consumers are no direct ones on the owner."""
        return self.bound and self.cursor is not CursorPlace.POOL_BEFORE

    @property
    def needs_claim(self) -> bool:
        """Whether only the broker with the claim of the subscription, or of its cursor's partition, may serve it."""
        return self.local or (self.bound and self.info.kind in CLAIMED_TYPES and not self.split)


@dataclass(frozen=True, slots=True)
class Served:
    """This broker serves the consumer; the owner keeps the cursor."""


@dataclass(frozen=True, slots=True)
class Local:
    """This broker serves the consumer, and keeps the cursor.

    Attributes:
        changes_only: whether the consumer only seeks or unsubscribes, beside those that get messages.
    """

    changes_only: bool


@dataclass(frozen=True, slots=True)
class Leased:
    """This broker serves the consumer; another broker of the pool keeps the cursor, and leases entries.

    Attributes:
        peer: URL of that broker.
    """

    peer: str


@dataclass(frozen=True, slots=True)
class Relay:
    """Another broker of the pool serves the consumer.

    Attributes:
        peer: URL of the broker.
    """

    peer: str


@dataclass(frozen=True, slots=True)
class Passthrough:
    """The owner serves the consumer.

    Attributes:
        bound: whether a binding names the subscription, so that this pool serves it when the reason for the owner has gone.
    """

    bound: bool


@dataclass(frozen=True, slots=True)
class AtOwner:
    """The owner serves the consumer for less, so its client goes there.

    Attributes:
        urls: the owner's URLs.
    """

    urls: Urls


Route = Served | Local | Leased | Relay | Passthrough | AtOwner

_SERVED: Final = Served()


def may_be_moved(request: LocalRequest | None, *, durable: bool) -> bool:
    """Return whether a request is about a local cursor that may exist although the owner keeps the subscription's now."""
    return durable and request in _OF_EXISTING


def choose_route(
    placement: Placement, peer: str, relayed_by: str | None, needs_owner: str, cheaper: Urls | None = None
) -> Route:
    """Return the way of a consumer.

    Args:
        placement: what bindings and cursors say.
        peer: URL of the broker of the pool that has the claim, or should have the cursor; empty for this one or none.
        relayed_by: URL of the broker of the pool that relays the consumer here; None if the client has connected directly.
        needs_owner: why only the owner can serve the subscription; empty if this broker can.
        cheaper: the owner's URLs if the consumer is cheaper there; None if not.

    Raises:
        OwnerUnavailableError: two brokers of the pool take each other for the one that serves the subscription.
        OwnerRefusedError: the pool keeps the cursor, but only the owner can serve the subscription.
    """
    if cheaper is not None:
        return AtOwner(cheaper)
    if peer and relayed_by is not None:
        raise OwnerUnavailableError(
            f"{relayed_by} relayed this subscription here, but another broker of the pool serves it; look the topic up again"
        )
    if peer:
        leased = placement.split and placement.request is None
        return Leased(peer) if leased else Relay(peer)
    if needs_owner and placement.cursor is CursorPlace.POOL:
        subject = f"subscription {placement.info.name} of {placement.topic}"
        why = f"{subject} needs the owner's cursor ({needs_owner}): bind it with cursors: Owner"
        raise OwnerRefusedError(ServerError.NotAllowedError, why)
    if placement.local:
        return Local(placement.request is LocalRequest.FORCE)
    if needs_owner or not placement.bound:
        return Passthrough(placement.bound)
    return _SERVED
