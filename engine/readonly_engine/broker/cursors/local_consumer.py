"""A client's consumer of a local subscription, where its cursor is kept: in this broker."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.broker.cursors.consumers import LocalConsumer
from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import Position
from readonly_engine.wire.bit_set import ack_set_bits
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandConsumerStatsResponse,
    CommandSubscribe,
    CommandSuccess,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from readonly_engine.broker.cursors.local_subscription import LocalSubscription
    from readonly_engine.broker.cursors.partition import CursorPartition
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.consumer_acks import EntryGate
    from readonly_engine.owner.grouped_acks import GroupedAckSender
    from readonly_engine.owner.identity import Identity
    from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandSeek

log = logging.getLogger(__name__)

_SUCCESS: Final = BaseCommand.SUCCESS


class LocalConsumerEvents(Protocol):
    """Gets the events of a LocalCursorConsumer."""

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle ACTIVE_CONSUMER_CHANGE, or the answer to an ack."""

    def on_closed_by_owner(self, reason: str) -> None:
        """Handle the end of the consumer: the client must subscribe again."""


def _success() -> BaseCommand:
    return BaseCommand(type=_SUCCESS, success=CommandSuccess())


class LocalCursorConsumer:
    """A consumer of a local subscription (CursorConsumer).

    Args:
        partition: the cursors of the subscription's partition.
        topic: the topic.
        identity: the client's credentials.
        subscribe: the client's SUBSCRIBE.
        events: gets the events.

    Attributes:
        topic: as above.
        identity: as above.
        number: unique number of the consumer.
        local: the subscription; None before it is subscribed.
    """

    __slots__ = (
        "_closed",
        "_created",
        "_encoded_subscribe",
        "_events",
        "_partition",
        "identity",
        "local",
        "number",
        "topic",
    )

    subscribe_count = 1
    lost_at = None
    closed_by_owner = False
    resumed_at = None
    confirmed_up_to = None
    unanswered: Iterable[CommandAck] = ()
    possibly_lost: Iterable[tuple[Position | None, CommandAck]] = ()

    def __init__(
        self,
        partition: CursorPartition,
        topic: TopicName,
        identity: Identity,
        subscribe: CommandSubscribe,
        events: LocalConsumerEvents,
    ) -> None:
        self._partition = partition
        self._events = events
        self._closed = False
        self._created = time.time()
        self.topic = topic
        self.identity = identity
        self._encoded_subscribe = subscribe.SerializeToString()
        self.number = partition.next_number()
        self.local: LocalSubscription | None = None

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, decoded at each access."""
        return CommandSubscribe.FromString(self._encoded_subscribe)

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """A connection of the client's identity to the topic's owner; None without one."""
        return self._partition.access.connection(self.topic, self.identity)

    @property
    def subscribed(self) -> bool:
        """Whether the consumer is in its subscription."""
        return self.local is not None

    # Subscribing

    async def subscribe(self) -> BaseCommand:
        """Subscribe, after the owner has authorized it.

        Raises:
            OwnerUnavailableError: the owner does not answer, or the cursor cannot be stored here.
            OwnerRefusedError: the owner or the subscription refuses the consumer.
        """
        try:
            self.local = await self._partition.subscribe(self)
        except CursorStoreError as error:
            raise OwnerUnavailableError(str(error)) from error
        if self._closed:
            await self.close()
        else:
            self.local.announce(self)
        return _success()

    def as_local(self) -> LocalConsumer:
        """Return the consumer as the subscription's rules know it."""
        return LocalConsumer.of(self.number, self.subscribe_command)

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the consumer. The changes of its cursor are stored soon."""
        del command
        self._closed = True
        local, self.local = self.local, None
        if local is not None:
            self._partition.leave(self, local)
        return None

    def expect_return(self) -> None:
        """Keep its place while another broker redirects its client here."""
        self._partition.expect_return(self)

    def active_changed(self, *, active: bool) -> None:
        """Pass on that it has become active or inactive."""
        change = CommandActiveConsumerChange(is_active=active)
        self._events.on_owner_command(
            BaseCommand(type=BaseCommand.ACTIVE_CONSUMER_CHANGE, active_consumer_change=change), b""
        )

    def end(self, reason: str) -> None:
        """Close the consumer, so that its client subscribes again."""
        if not self._closed:
            self._events.on_closed_by_owner(reason)

    # Requests

    async def state(self) -> OwnerCursorState:
        """Return the mark-delete position, and the topic's last entry at the owner.

        Raises:
            RelayError: the owner does not answer.
        """
        found = OwnerCursorState.from_response(await self._partition.access.last(self))
        return found if self.local is None else found._replace(mark_delete=self.local.mark_delete)

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Answer a request; the answer may be an ERROR.

        Raises:
            OwnerUnavailableError: the owner does not answer, or the cursor cannot be stored here.
            OwnerRefusedError: the request is refused.
        """
        local = self.local
        if local is None:
            raise OwnerUnavailableError(f"the consumer of {self.topic} is closed; subscribe again")
        try:
            if command.type == BaseCommand.SEEK:
                await self._seek(local, command.seek)
            elif command.type == BaseCommand.UNSUBSCRIBE:
                await self._unsubscribe(local, force=command.unsubscribe.force)
            elif command.type == BaseCommand.CONSUMER_STATS:
                return self._stats(local)
            elif command.type == BaseCommand.GET_LAST_MESSAGE_ID:
                return await self._last(local)
            else:
                raise OwnerRefusedError(ServerError.NotAllowedError, "local cursors do not support this request")
        except CursorStoreError as error:
            raise OwnerUnavailableError(str(error)) from error
        return _success()

    request_with_retry = request

    async def _seek(self, local: LocalSubscription, seek: CommandSeek) -> None:
        batches: list[tuple[Position, int]] = []
        if seek.HasField("message_id"):
            position = Position(seek.message_id.ledger_id, seek.message_id.entry_id)
            if seek.message_id.ack_set:
                batches = [(position, ack_set_bits(seek.message_id.ack_set))]
        else:
            position = await self._partition.position_at(self.topic, seek.message_publish_time)
        mark_delete = await self._partition.access.begin_at(self, position)
        await self._partition.move(self, local, mark_delete, batches)

    async def _unsubscribe(self, local: LocalSubscription, *, force: bool) -> None:
        if not force and not local.consumers.may_unsubscribe(self.number):
            raise OwnerRefusedError(
                ServerError.MetadataError, "Unconnected or shared consumer attempting to unsubscribe"
            )
        await self._partition.delete(self, local)

    def _stats(self, local: LocalSubscription) -> BaseCommand:
        subscribe = self.subscribe_command
        stats = CommandConsumerStatsResponse(
            consumer_name=subscribe.consumer_name,
            type=CommandSubscribe.SubType.Name(subscribe.sub_type),
            connected_since=datetime.fromtimestamp(self._created, UTC).isoformat(),
            msg_backlog=0 if local.served is None else local.served.backlog,
        )
        return BaseCommand(type=BaseCommand.CONSUMER_STATS_RESPONSE, consumer_stats_response=stats)

    async def _last(self, local: LocalSubscription) -> BaseCommand:
        shared = await self._partition.access.last(self)
        answer = BaseCommand()
        answer.CopyFrom(shared)  # others have the same answer
        mark_delete = answer.get_last_message_id_response.consumer_mark_delete_position
        mark_delete.ledger_id, mark_delete.entry_id = local.mark_delete
        return answer

    def send(self, command: BaseCommand) -> None:
        """Ignore a command that only an owner could need."""

    def expecting_close(self) -> AbstractContextManager[None]:
        """Return a context without effect: nobody else closes the consumer."""
        return nullcontext()

    # Acks

    def ack(self, ack: CommandAck) -> bool:
        """Store an ack soon. A receipt is sent when it is stored."""
        if ack.HasField("txnid_most_bits"):
            why = "a local subscription takes no acks in transactions; let the owner keep its cursor (cursors: Owner)"
            if ack.HasField("request_id"):
                self._respond(
                    CommandAckResponse(request_id=ack.request_id, error=ServerError.NotAllowedError, message=why)
                )
            else:
                log.warning("ack refused: topic=%s reason=%s", self.topic, why)
            return False
        if self.local is not None:
            number = self.local.acked()
            if ack.HasField("request_id"):
                self._partition.store.call_when_stored(number, partial(self._stored, ack.request_id))
        return True

    def ack_entries(self, ids: bytes) -> None:
        """Store acks of whole entries soon."""
        del ids
        if self.local is not None:
            self.local.acked()

    def send_acks(self, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Store acks of whole entries soon."""
        self.ack_entries(ids)
        on_response(_success())

    def _stored(self, request_id: int, stored: bool) -> None:
        answer = CommandAckResponse(request_id=request_id)
        if not stored:
            answer.error, answer.message = ServerError.ServiceNotReady, "the ack could not be stored"
        self._respond(answer)

    def _respond(self, answer: CommandAckResponse) -> None:
        if not self._closed:
            self._events.on_owner_command(BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=answer), b"")

    def share_acks(self, acks: GroupedAckSender) -> None:
        """Ignore it: acks are stored together anyway."""

    def take_messages(self, on_message: object) -> None:
        """Ignore it: no owner sends messages."""

    def hold_early_acks(self, gate: EntryGate) -> None:
        """Ignore it: no owner counts the entries."""

    def resume_acks(self) -> None:
        """Ignore it: no acks wait."""

    async def wait_for_acks(self) -> None:
        """Return at once: acks are in force when they arrive."""

    def ack_receipt(self) -> None:
        """Return None: every ack is in force."""

    def forget_answers(self) -> None:
        """Ignore it: no owner answers acks."""
