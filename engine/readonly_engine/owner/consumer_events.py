"""Events of a consumer on the owner broker, and the owner's answer about its subscription. Pure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandGetLastMessageId


class OwnerCursorState(NamedTuple):
    """The owner's answer about a subscription.

    Attributes:
        mark_delete: every entry up to here is acked; None where the answer has no position.
        last: the topic's last entry that may be delivered.
    """

    mark_delete: Position | None
    last: Position

    @classmethod
    def from_response(cls, answer: BaseCommand) -> OwnerCursorState:
        """Read the answer to GET_LAST_MESSAGE_ID.

        Raises:
            OwnerRefusedError: the owner has refused the request.
        """
        if answer.type == BaseCommand.ERROR:
            raise OwnerRefusedError(answer.error.error, answer.error.message)
        response = answer.get_last_message_id_response
        last = Position(response.last_message_id.ledger_id, response.last_message_id.entry_id)
        if not response.HasField("consumer_mark_delete_position"):
            return cls(None, last)
        mark_delete = response.consumer_mark_delete_position
        return cls(Position(mark_delete.ledger_id, mark_delete.entry_id), last)


def last_message_id_request() -> BaseCommand:
    """Return a GET_LAST_MESSAGE_ID; its answer is an OwnerCursorState."""
    return BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, get_last_message_id=CommandGetLastMessageId())


class ConsumerEvents(Protocol):
    """Gets the events of an OwnerConsumer."""

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle the owner's ACTIVE_CONSUMER_CHANGE, REACHED_END_OF_TOPIC, TOPIC_MIGRATED, MESSAGE, or answer to an ack."""

    def on_detached(self) -> bool:
        """Handle a move of the owner, or a broken connection; the consumer subscribes again.

        Returns:
            Whether it may go on delivering meanwhile, and needs `on_owner_dead` for that.
        """

    def mark_delete_position(self) -> Position | None:
        """Return the position up to which the subscription has acked every entry; None if unknown."""

    def on_owner_dead(self, checked_at: float) -> bool:
        """Handle the end of the owner's process: its address refused a connection that was tried at this time (lease_time).

        Returns:
            Whether it has anything to deliver.
        """

    def on_resubscribed(self, state: OwnerCursorState) -> None:
        """Handle the return to the owner. Acks wait for `resume_acks`, since the cursor may have been reset meanwhile."""

    def on_closed_by_owner(self, reason: str) -> None:
        """Handle the end of the consumer at the owner: the client must subscribe again."""
