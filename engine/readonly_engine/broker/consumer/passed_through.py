"""A consumer that the owner serves through this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.consumer.client_consumer import KEEPER_CHANGED, ClientConsumer
from readonly_engine.broker.consumer.exclusives import is_exclusive
from readonly_engine.broker.consumer.flow_window import FlowWindow
from readonly_engine.broker.consumer.stats import OWNER, ConsumerFigures, complete_stats
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.topic.position import Position
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.message import decode_stored, without_entry_metadata
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandFlow, CommandSubscribe

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse, MessageIdData

FLOW_WINDOW_BYTES = 1 << 20
"""Bytes of messages that the owner may send ahead to one passthrough consumer."""

CUMULATIVE_TYPES = frozenset({CommandSubscribe.Exclusive, CommandSubscribe.Failover})


class PassedThroughConsumer(ClientConsumer):
    """Relays FLOW, messages and acks, within a window that fits the client's write buffer.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the SUBSCRIBE for the owner.
        claim: as in ClientConsumer.
        peer_url: URL of the broker of the pool that takes the owner's place; empty for the owner.

    Attributes:
        flow_window: permits for the owner, and messages without an ack.
    """

    __slots__ = ("_peer_url", "flow_window")

    subscription = None

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
        peer_url: str = "",
    ) -> None:
        super().__init__(connection, placement, claim, subscribe.consumer_id, exclusive=is_exclusive(subscribe))
        self._peer_url = peer_url
        self._open(subscribe)

    def _open(self, subscribe: CommandSubscribe) -> None:
        """Make the consumer at the owner, without a message so far."""
        self.flow_window = FlowWindow(FLOW_WINDOW_BYTES, track_pending=subscribe.sub_type not in CUMULATIVE_TYPES)
        self.owner_consumer = OwnerConsumer(
            self.connection.services.owners,
            self.connection.identity,
            subscribe,
            self,
            zero_permit=False,
            peer_url=self._peer_url,
        )

    @property
    def consumer_name(self) -> str:
        """Name of the consumer; empty if the client has sent none."""
        return self.subscribe_command.consumer_name

    @property
    def served_by(self) -> str:
        """The owner."""
        return OWNER

    def misplaced(self, *, keeps_cursor: bool) -> str:
        """Return why the consumer must subscribe again, now that a binding names its subscription; empty to keep it."""
        if not self.bound:
            return "the pool serves the subscription now"
        return KEEPER_CHANGED if self.info.durable and keeps_cursor else ""

    def figures(self) -> ConsumerFigures:
        """Return the figures of now. The owner knows whether delivery waits for acks."""
        window = self.flow_window
        return ConsumerFigures(self.served_by, window.permits, len(window.pending), False, self.messages, self.bytes)

    def complete_stats(self, answer: CommandConsumerStatsResponse) -> None:
        """Fill the client's address and permits into the owner's answer to CONSUMER_STATS."""
        complete_stats(answer, self.connection.peer, self.flow_window.permits, None)

    async def begin(self, sent: float) -> None:  # noqa: ARG002 - the owner keeps its consumers
        """Let the policy end the passthrough when its reason has gone."""
        if self.bound:
            self.connection.services.passthrough.add(self)

    def stop_delivery(self) -> FlowWindow:
        """Relay no messages any more; return the window, which has those without an ack."""
        self.flow_window.close()
        return self.flow_window

    def _leave(self) -> None:
        self.connection.services.passthrough.remove(self)

    # Commands of the client

    def flow(self, command: BaseCommand) -> None:
        """Add the permits of a FLOW."""
        self.flow_window.add_permits(command.flow.message_permits)
        self._grant_permits()

    def ack(self, command: BaseCommand) -> None:
        """Relay an ACK."""
        if not self.owner_consumer.ack(command.ack):
            return
        cumulative = command.ack.ack_type == CommandAck.Cumulative
        self.flow_window.on_ack([_position(m) for m in command.ack.message_id if not m.ack_set], cumulative=cumulative)

    def redeliver(self, command: BaseCommand) -> None:
        """Relay a request for redelivery."""
        request = command.redeliver_unacknowledged_messages
        self.flow_window.on_redeliver([_position(m) for m in request.message_id] or list(self.flow_window.pending))
        self.owner_consumer.send(command)

    def on_writable_changed(self, *, writable: bool) -> None:
        """Grant permits again when the write buffer is below its limit."""
        if writable:
            self._grant_permits()

    def _grant_permits(self) -> None:
        """Send permits of the client to the owner, if the write buffer is below its limit."""
        permits = self.flow_window.grant() if self._may_grant else 0
        if permits:
            flow = CommandFlow(message_permits=permits)
            self.owner_consumer.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    @property
    def _may_grant(self) -> bool:
        return self.connection.writable

    # ConsumerEvents

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Relay a command of the owner."""
        if command.type == BaseCommand.MESSAGE:
            messages = _messages(payload)
            accepted = self.flow_window.on_entry(_position(command.message.message_id), messages, len(payload))
            self._grant_permits()
            if not accepted:
                return
            if not self.takes_entry_metadata:
                payload = without_entry_metadata(payload)
            self.messages += messages
            self.bytes += len(payload)
        self._relay(command, payload)


def _messages(payload: bytes) -> int:
    """Return the number of permits that an entry uses."""
    try:
        return decode_stored(payload).messages
    except WireError:
        return 1


def _position(message_id: MessageIdData) -> Position:
    return Position(message_id.ledger_id, message_id.entry_id)
