"""Shared parts of a broker, as the consumers of clients use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from readonly_engine.broker.consumer.exclusives import ExclusiveConsumers
    from readonly_engine.broker.consumer.limits import Limits
    from readonly_engine.broker.cursors.local_cursors import LocalCursors
    from readonly_engine.broker.cursors.local_names import LocalSubscriptionNames
    from readonly_engine.broker.passthrough.policy import PassThroughPolicy
    from readonly_engine.broker.pool.bindings import Bindings
    from readonly_engine.broker.pool.cheaper import RecentRedirects
    from readonly_engine.broker.pool.claim_store import ClaimStore
    from readonly_engine.broker.pool.membership import Member, PoolMembership
    from readonly_engine.broker.pool.pending_redirects import PendingRedirects
    from readonly_engine.broker.pool.redirects import RedirectHistory
    from readonly_engine.broker.replay.replay import Replay
    from readonly_engine.broker.split.registry import SplitSubscriptions
    from readonly_engine.broker.subscription.owner_leases import OwnerLeases
    from readonly_engine.broker.subscription.topics import TopicRegistry
    from readonly_engine.config.settings import Unbound
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.directory import OwnerDirectory

T = TypeVar("T")


class Services(Protocol):
    """The parts of a broker that serve all clients; the server builds them.

    Attributes:
        owners: connections to the owner brokers.
        topics: the open topics and their subscriptions.
        passthrough: decides which subscriptions the owner serves.
        pool: the pool's members.
        claim_store: the claims of this broker.
        limits: limits of connections and consumers.
        bindings: the bindings in force; the server replaces them.
        unbound: handling of topics without a binding.
        owner_leases: leases of consumers on their owners.
        redirects: history of redirected clients.
        recent_redirects: recent redirects to owners.
        pending_redirects: consumers that other brokers of the pool redirect to this one.
        exclusives: consumers of Exclusive subscriptions.
        local_cursors: the cursors that this broker keeps.
        local_names: looks for local cursors of subscriptions that owners keep.
        replay: the replay of past messages that the pool is; None for a pool of present ones.
        splits: the split subscriptions.
        draining: whether the broker leaves the pool.
    """

    owners: OwnerDirectory
    topics: TopicRegistry
    passthrough: PassThroughPolicy
    pool: PoolMembership
    claim_store: ClaimStore
    limits: Limits
    bindings: Bindings
    unbound: Unbound
    owner_leases: OwnerLeases
    redirects: RedirectHistory
    recent_redirects: RecentRedirects
    pending_redirects: PendingRedirects
    exclusives: ExclusiveConsumers
    local_cursors: LocalCursors
    local_names: LocalSubscriptionNames
    replay: Replay | None
    splits: SplitSubscriptions
    draining: bool

    def keeps_cursors(self, topic: TopicName, subscription: str) -> bool:
        """Return whether the pool keeps the cursor of a subscription, instead of its owner."""

    def splits_dispatch(self, topic: TopicName, subscription: str) -> bool:
        """Return whether the bindings let several brokers of the pool serve a Shared subscription."""

    def choose_broker(self, *, tls: bool, listener: str, locality: str) -> Member | None:
        """Return the broker of the pool for the next consumer; None without one.

        Args:
            tls: whether the client needs a TLS address.
            listener: name of the client's listener.
            locality: locality that the client gives; empty for none: then it is that of this broker, which the client asked.
        """

    def note_refused(self, url: str) -> None:
        """Answer no lookups with a broker of the pool whose address has just refused a connection.

        Args:
            url: URL of the address, of a broker of the pool or of an owner.
        """

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a task of the broker; an unexpected error is logged."""
