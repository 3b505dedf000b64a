"""Interface of a consumer where its subscription's cursor is kept: at the owner broker, or in this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.consumer_acks import EntryGate
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.grouped_acks import GroupedAckSender
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandMessage, CommandSubscribe


class CursorConsumer(Protocol):
    """A consumer as the keeper of its cursor knows it: an OwnerConsumer, or a LocalCursorConsumer."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, decoded at each access."""

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """A connection of the client's identity to the topic's owner; None without one."""

    @property
    def subscribed(self) -> bool:
        """Whether the consumer is known where the cursor is kept."""

    @property
    def subscribe_count(self) -> int:
        """Number of successful subscriptions."""

    async def subscribe(self) -> BaseCommand:
        """Subscribe; return the SUCCESS for the client.

        Raises:
            RelayError: the subscription is refused, or cannot be made now.
        """

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the consumer.

        Args:
            command: the client's CLOSE_CONSUMER, if the client closes it.

        Returns:
            The answer for the client; None for a plain SUCCESS.
        """

    async def state(self) -> OwnerCursorState:
        """Return the positions of the subscription and the topic.

        Raises:
            RelayError: they are not known now.
        """

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Answer a request of this consumer; the answer may be an ERROR.

        Raises:
            RelayError: it cannot be answered now.
        """

    async def request_with_retry(self, command: BaseCommand) -> BaseCommand:
        """Answer a request that may be repeated; otherwise as `request`."""

    def send(self, command: BaseCommand) -> None:
        """Relay a command that has no answer."""

    def take_messages(self, on_message: Callable[[CommandMessage, bytes], None] | None) -> None:
        """Call back with MESSAGEs of the owner, and their stored entries; None to drop them."""

    def expecting_close(self) -> AbstractContextManager[None]:
        """Expect a close by the owner, while the context lasts."""

    # Acks

    def ack(self, ack: CommandAck) -> bool:
        """Keep an ack; return False if it is refused, so that it must not be applied."""

    def ack_entries(self, ids: bytes) -> None:
        """Keep acks of whole entries, given as fields `message_id` of a CommandAck."""

    def send_acks(self, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Send acks of this consumer and others; `on_response` gets the answer later, or None if none will come."""

    def share_acks(self, acks: GroupedAckSender) -> None:
        """Let the subscription's consumers send their grouped acks through this one."""

    def hold_early_acks(self, gate: EntryGate) -> None:
        """Let acks with a request id wait until the owner counts their entries."""

    def resume_acks(self) -> None:
        """Send the unanswered acks after the return to the owner."""

    async def wait_for_acks(self) -> None:
        """Wait until every ack is in force."""

    def ack_receipt(self) -> Callable[[], bool] | None:
        """Return a function that returns whether every ack until now is in force; None if it is."""

    # Comparison of the cursor with the owner's

    @property
    def unanswered(self) -> Iterable[CommandAck]:
        """The acks that the owner has not answered."""

    @property
    def possibly_lost(self) -> Iterable[tuple[Position | None, CommandAck]]:
        """The acks that the owner answered shortly before the connection broke."""

    @property
    def confirmed_up_to(self) -> Position | None:
        """The position of the last cumulative ack that the owner has answered; None without one."""

    def forget_answers(self) -> None:
        """Drop `confirmed_up_to`."""

    @property
    def lost_at(self) -> float | None:
        """Time at which the connection broke; None without that."""

    @property
    def closed_by_owner(self) -> bool:
        """Whether the owner has closed the consumer."""

    @property
    def resumed_at(self) -> Position | None:
        """Position behind which a non-durable subscription asked to resume; None for the first time."""
