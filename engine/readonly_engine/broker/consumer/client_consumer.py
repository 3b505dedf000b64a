"""One consumer of a client, as all ways have it: its connection, what it holds, and its consumer where the cursor is kept."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar

from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.redirects import close_consumer
from readonly_engine.config.listeners import NO_URLS
from readonly_engine.wire.commands import body_of, command_name, encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.consumer.stats import ConsumerFigures, Outstanding
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.config.listeners import Urls
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.acks import PlainAck
    from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse, CommandSubscribe

log = logging.getLogger(__name__)

CLAIM_RELEASE_TIMEOUT_S = 5.0
"""Time for the owner to process the last acks of a consumer and to close it. After that the claim is released anyway."""

KEEPER_CHANGED = "the keeper of the subscription's cursor has changed"


class ClientConsumer:
    """A consumer of a client's connection (ConsumerEvents).

    It holds a place within the limits, and its part in a claim. The place is free when the consumer has left. The claim is free
    when the owner has processed the consumer's last acks, too: the next broker reads the owner's cursor.

    Args:
        connection: the client's connection.
        placement: its topic, the lasting fields of its SUBSCRIBE, and whether a binding names the subscription.
        claim: as below.
        consumer_id: as below.
        exclusive: as below.

    Attributes:
        connection: as above.
        topic: its topic.
        info: the lasting fields of its SUBSCRIBE.
        bound: whether a binding includes the subscription.
        claim: the claim of the subscription, of this broker or of another one; None without one, and after its release.
        relayed_at: time (monotonic) when another broker of the pool relayed the consumer here; None if the client has connected
            directly.
        exclusive: whether it keeps other consumers out: of its subscription, or of its sticky ranges of hashes.
        consumer_id: the client's id.
        created_at: time (monotonic) of its creation.
        unregistered: whether `unregister` was called.
        messages: number of messages sent to the client.
        bytes: bytes of frames sent to the client.
        owner_consumer: the consumer where the cursor is kept: on the owner, a zero-permit consumer unless it passes through; or
            in a partition of this broker's.
        subscription: the subscription on this broker; None before it is joined, and where another broker serves the consumer.
        split: whether other brokers serve its subscription, too.
        acks_only: whether another broker of the pool dispatches to its client, and it only brings acks.
    """

    split: ClassVar[bool] = False
    acks_only: ClassVar[bool] = False

    __slots__ = (
        "_closed",
        "_closing",
        "bound",
        "bytes",
        "claim",
        "connection",
        "consumer_id",
        "created_at",
        "exclusive",
        "info",
        "messages",
        "owner_consumer",
        "relayed_at",
        "topic",
        "unregistered",
    )

    owner_consumer: CursorConsumer
    subscription: Subscription | None

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        claim: ClaimHandle | None,
        consumer_id: int,
        *,
        exclusive: bool,
    ) -> None:
        self.connection = connection
        self.topic = placement.topic
        self.info = placement.info
        self.bound = placement.bound
        self.claim = claim
        self.relayed_at: float | None = None
        self.exclusive = exclusive
        self.consumer_id = consumer_id
        self.created_at = time.monotonic()
        self.unregistered = False
        self.messages = 0
        self.bytes = 0
        self._closing: asyncio.Task[BaseCommand | None] | None = None
        self._closed = False

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, decoded at each access. `info` has what is needed often."""
        return self.owner_consumer.subscribe_command

    @property
    def consumer_name(self) -> str:
        """Name of the consumer; empty if the client has sent none."""
        raise NotImplementedError

    @property
    def takes_entry_metadata(self) -> bool:
        """Whether the client takes the owner's own metadata of entries."""
        return self.connection.takes_entry_metadata

    # The way

    @property
    def served_by(self) -> str:
        """URL of the broker of the pool that serves it; OWNER; or empty for this broker."""
        raise NotImplementedError

    @property
    def movable(self) -> bool:
        """Whether another broker of the pool can serve it as well: none does, and this one does not have its cursor."""
        return True

    @property
    def holder(self) -> str:
        """URL of the other broker of the pool that holds the cursor and leases entries to this one; empty for none."""
        return ""

    def served_under(self, key: ClaimKey) -> bool:
        """Return whether this broker serves it by a claim."""
        claim = self.claim
        return claim is not None and claim.key == key

    def misplaced(self, *, keeps_cursor: bool) -> str:
        """Return why the consumer must subscribe again, now that a binding names its subscription; empty to keep it.

        Args:
            keeps_cursor: whether the pool keeps the subscription's cursor by the bindings in force.
        """
        raise NotImplementedError

    def figures(self) -> ConsumerFigures:
        """Return the figures of now."""
        raise NotImplementedError

    def complete_stats(self, answer: CommandConsumerStatsResponse) -> None:
        """Fill the counters of this broker into the owner's answer to CONSUMER_STATS."""
        raise NotImplementedError

    # Begin and end

    async def begin(self, sent: float) -> None:
        """Begin, after the SUBSCRIBE was answered where the cursor is kept.

        Args:
            sent: time of the SUBSCRIBE, or earlier (lease_time).

        Raises:
            RelayError: it cannot be served this way now.
            MetadataError: the topic's metadata cannot be read.
        """
        raise NotImplementedError

    def on_answered(self) -> None:
        """Handle that the client has the answer to its SUBSCRIBE."""

    def expect_return(self) -> None:
        """Keep its place while another broker of the pool redirects its client here."""

    def stop_delivery(self) -> Outstanding | None:
        """Send no messages any more; return what knows whether delivered ones wait for acks. None if no ack is worth a wait."""
        raise NotImplementedError

    def unregister(self) -> None:
        """Leave the subscription, limits and registries. The caller also calls `close` for the consumer on the owner."""
        if self.unregistered:
            return
        self.unregistered = True
        services = self.connection.services
        if self.exclusive:
            services.exclusives.remove(self)
        self._leave()
        services.limits.leave(self.topic, self.info.name)
        if self.claim is not None and self.relayed_at is not None:
            services.pending_redirects.expect(ClaimKey(self.topic, self.info.name), self.relayed_at, time.monotonic())
        self._release_claim()

    def _leave(self) -> None:
        """Leave what serves it."""

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the consumer on the owner, after its state of batches is stored for the next consumer of the subscription.

        The close continues if the caller is cancelled.

        Args:
            command: the client's CLOSE_CONSUMER, if the client closes the consumer.

        Returns:
            The owner's answer; None if the consumer was not on the owner.
        """
        if self._closing is None:
            self._closing = self.connection.services.spawn(self._close(command))
        return await asyncio.shield(self._closing)

    async def _close(self, command: BaseCommand | None) -> BaseCommand | None:
        await self._state_saved()
        late = asyncio.get_running_loop().call_later(CLAIM_RELEASE_TIMEOUT_S, self._on_closed)
        try:
            # The owner processes acks before a later CLOSE_CONSUMER.
            return await self.owner_consumer.close(command)
        finally:
            late.cancel()
            self._on_closed()

    def _on_closed(self) -> None:
        """Give the claim back if the consumer has left: the owner has processed its acks, or the wait for that is over."""
        self._closed = True
        self._release_claim()

    def _release_claim(self) -> None:
        if self.claim is not None and self.unregistered and self._closed:
            claim, self.claim = self.claim, None
            self.connection.services.claim_store.release(claim)

    async def _state_saved(self) -> None:
        """Wait until its state is stored for the next consumer."""

    async def detach(self) -> None:
        """Leave the subscription and close the consumer on the owner, without a CLOSE_CONSUMER to the client."""
        self.unregister()
        await self.close()

    def close_for_resubscribe(self, reason: str, to: Urls = NO_URLS) -> None:
        """Close the consumer on the client, which then subscribes again, as a rule after a lookup.

        Args:
            reason: why, for the log.
            to: URLs of a broker that the client connects to without a lookup.
        """
        log.info(
            "consumer closed: topic=%s subscription=%s consumer=%d reason=%s",
            self.topic,
            self.info.name,
            self.consumer_id,
            reason,
        )
        # First the client, as a stock broker (Consumer.disconnect): another consumer of Key_Shared gets the messages at once, and
        # the client would have two consumers of a key.
        self.connection.send(close_consumer(self.consumer_id, to.url, to.tls_url))
        self.connection.drop_consumer(self)

    # Commands of the client

    def flow(self, command: BaseCommand) -> None:
        """Add the permits of a FLOW."""
        raise NotImplementedError

    def ack(self, command: BaseCommand) -> None:
        """Relay an ACK, and apply it."""
        raise NotImplementedError

    def ack_entries(self, ack: PlainAck) -> bool:  # noqa: ARG002 - of ways with a fast path
        """Fast path: ack complete entries without a receipt. If it returns False, nothing was done, and `ack` must follow."""
        return False

    def redeliver(self, command: BaseCommand) -> None:
        """Redeliver messages on request of the client."""
        raise NotImplementedError

    def on_writable_changed(self, *, writable: bool) -> None:
        """Pause or resume delivery after a change of the write buffer."""
        raise NotImplementedError

    def requesting(self) -> AbstractAsyncContextManager[None]:
        """Return a context for a request of the client that is relayed."""
        return nullcontext()

    def affected_subscription(self) -> Subscription | None:
        """Return the subscription on this broker that its requests change; None without one."""
        return self.subscription

    # ConsumerEvents

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle a command of the owner: relay it, or apply it to the subscription."""
        raise NotImplementedError

    def _relay(self, command: BaseCommand, payload: bytes) -> None:
        """Relay a command of the owner, under the client's id."""
        if command.type == BaseCommand.TOPIC_MIGRATED:
            command.topic_migrated.resource_id = self.consumer_id
        elif hasattr(body_of(command), "consumer_id"):
            body_of(command).consumer_id = self.consumer_id
        elif (
            command.type != BaseCommand.ERROR
        ):  # which answers an ack that the owner refuses, under the client's request id
            log.debug("%s: the owner sent %s", self.topic, command_name(command))
            return
        self.connection.send(encode_command(command, payload))

    def on_detached(self) -> bool:
        """Handle a move of the owner or a lost connection; return whether it may go on delivering meanwhile."""
        return False

    def mark_delete_position(self) -> Position | None:
        """Return the mark-delete position of the subscription; None without one."""
        return None

    def on_owner_dead(self, checked_at: float) -> bool:  # noqa: ARG002
        """Handle that the owner's address has refused a connection at this time (lease_time)."""
        return False

    def on_resubscribed(self, state: OwnerCursorState) -> None:
        """Handle the return to the owner."""

    def on_closed_by_owner(self, reason: str) -> None:
        """Close the consumer after the owner has ended it."""
        self.close_for_resubscribe(reason)
