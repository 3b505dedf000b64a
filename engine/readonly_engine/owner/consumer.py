"""The mute consumer that stands at the owner for each consumer here: it subscribes and acks, and never asks for messages.

So the stock owner authorizes it, keeps Exclusive exclusive, elects the active Failover consumer and holds the cursor, and sends
nothing (measured: a consumer that never sent FLOW gets no message and can ack any).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.clock import lease_time
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.owner.grouped_acks import ack_of_entries
from readonly_engine.owner.recent_acks import RecentAcks
from readonly_engine.owner.responses import ResponseAggregator
from readonly_engine.owner.resume import set_resume_position
from readonly_engine.topic.position import Position
from readonly_engine.waiting import wait_until_done
from readonly_engine.wire.acks import split_ack
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandGetLastMessageId,
    CommandSubscribe,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.directory import OwnerDirectory
    from readonly_engine.owner.grouped_acks import GroupedAckSender
    from readonly_engine.owner.identity import Identity

log = logging.getLogger(__name__)

BACKOFF_S = (0.1, 5.0)

DEAD_OWNER_RETRY_S = 2.0
"""A dead owner is looked for more often: as long as nobody has the topic, reads go on (lease.py)."""

RETRY_TIMEOUT_S = 20.0
"""Within the 30 s for which clients wait for an answer (operationTimeoutMs)."""

_CUMULATIVE, _ERROR = (
    CommandAck.Cumulative,
    BaseCommand.ERROR,
)  # a look for them each time would take longer than the rest

_NOT_RETRIABLE = frozenset(
    {
        ServerError.AuthenticationError,
        ServerError.AuthorizationError,
        ServerError.ConsumerBusy,
        ServerError.TopicNotFound,
        ServerError.SubscriptionNotFound,
        ServerError.TopicTerminatedError,
        ServerError.InvalidTopicName,
        ServerError.IncompatibleSchema,
        ServerError.ConsumerAssignError,
        ServerError.NotAllowedError,
    }
)
"""Errors that trying again does not mend (PulsarClientException.isRetriableError): the client must hear of them."""


class OwnerCursorState(NamedTuple):
    """What the owner says of a subscription.

    Attributes:
        mark_delete: everything up to here is acked; None where the owner did not say.
        last: the topic's last entry that may be delivered.
    """

    mark_delete: Position | None
    last: Position


class ConsumerEvents(Protocol):
    """Whom a OwnerConsumer tells what happens at the owner."""

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """The owner sent something for this consumer: ACTIVE_CONSUMER_CHANGE, REACHED_END_OF_TOPIC, TOPIC_MIGRATED, MESSAGE."""

    def on_detached(self) -> None:
        """The owner moved or the connection broke; the consumer is on its way back."""

    def mark_delete_position(self) -> Position | None:
        """Up to where the subscription has acked everything; None where that is not known."""

    def on_owner_dead(self, checked_at: float) -> None:
        """Nobody listens where the owner was, of which the consumer came away; found out by trying then (lease_time)."""

    def on_resubscribed(self, state: OwnerCursorState) -> None:
        """The consumer is at the owner again. No ack is sent before `resume_acks`: the cursor may have been reset meanwhile."""

    def on_not_kept(self, reason: str) -> None:
        """The consumer cannot be kept at the owner: the client must subscribe again."""


class OwnerConsumer:
    """One consumer at the owner, kept there while the owner moves.

    Args:
        owners: where to find it.
        identity: the client's credentials.
        subscribe_command: the client's SUBSCRIBE.
        events: who is told what happens.
        zero_permit: whether FLOW is withheld; if not, everything passes through and the owner's close is the client's.
        peer_url: the broker of the pool that takes the owner's place for this consumer; empty for the owner itself.

    Attributes:
        subscribe_count: how often it has come to the owner.
        encoded_subscribe: the client's SUBSCRIBE, a CommandSubscribe.
        lost_at: when its connection broke since `resume_acks`, by the event loop's clock; None where it did not.
        closed_by_owner: whether the owner has closed it since `resume_acks`. An owner does so before it unloads the topic, which
            stores the cursor, and before it resets the cursor.
        resumed_at: after which position its SUBSCRIBE has asked to go on, of a non-durable subscription that has come back.
    """

    __slots__ = (
        "_acks_answered",
        "_acks_held",
        "_closed",
        "_closing_requests",
        "_connection",
        "_consumer_id",
        "_events",
        "_grouped_acks",
        "_identity",
        "_last_ack",
        "_last_cumulative",
        "_owner_url",
        "_owners",
        "_peer_url",
        "_recent",
        "_resubscribing",
        "_subscribing",
        "_unanswered",
        "_zero_permit",
        "closed_by_owner",
        "encoded_subscribe",
        "lost_at",
        "resumed_at",
        "subscribe_count",
    )

    def __init__(
        self,
        owners: OwnerDirectory,
        identity: Identity,
        subscribe: CommandSubscribe,
        events: ConsumerEvents,
        *,
        zero_permit: bool,
        peer_url: str = "",
    ) -> None:
        self._peer_url = peer_url
        self._owners = owners
        self._identity = identity
        self.encoded_subscribe = subscribe.SerializeToString()  # a third of the object's size, and seldom needed
        self._events = events
        self._zero_permit = zero_permit
        self._connection: OwnerConnection | None = None
        self._owner_url = ""
        self._subscribing: OwnerConnection | None = None
        self._consumer_id = 0
        self.subscribe_count = 0
        self._closed = False
        self._closing_requests = 0
        self._resubscribing: asyncio.Task[None] | None = None
        self._acks_held = False
        self._unanswered: dict[int, CommandAck | bytes] = {}  # bytes: the ids of whole entries
        self._recent = RecentAcks() if zero_permit and subscribe.durable else None
        self._last_ack = 0
        self.lost_at: float | None = None
        self.closed_by_owner = False
        self._last_cumulative: CommandAck | None = None
        self.resumed_at: Position | None = None
        self._acks_answered: asyncio.Event | None = None  # where somebody waits for it
        self._grouped_acks: GroupedAckSender | None = None

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, a new object each time."""
        return CommandSubscribe.FromString(self.encoded_subscribe)

    @property
    def subscribed(self) -> bool:
        """Whether the owner has the consumer now."""
        return self._connection is not None

    @property
    def connection(self) -> OwnerConnection | None:
        """The connection to the owner that has the consumer now."""
        return self._connection

    @property
    def unanswered_acks(self) -> int:
        """Acks that the owner has not confirmed yet."""
        return len(self._unanswered)

    async def subscribe(self) -> BaseCommand:
        """Subscribe at the owner.

        Returns:
            The owner's SUCCESS.

        Raises:
            OwnerUnavailableError: the owner cannot be found or does not answer.
            OwnerRefusedError: the owner refused the subscription.
        """
        subscribe = self.subscribe_command
        self.resumed_at = None if subscribe.durable or not self.subscribe_count else self._events.mark_delete_position()
        if self.resumed_at is not None:
            set_resume_position(subscribe, self.resumed_at)
        if self._peer_url:
            connection = await self._owners.peer_connection(self._peer_url, self._identity)
        else:
            connection = await self._owners.owner_of(subscribe.topic, self._identity)
        consumer_id = connection.add_consumer(self)
        self._subscribing = connection
        subscribe.consumer_id = consumer_id
        try:
            answer = await connection.subscribe(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe))
        except BaseException:
            # Whatever ended the wait, also the client's own close: nothing may be left at the owner.
            connection.remove_consumer(consumer_id)
            close = CommandCloseConsumer(consumer_id=consumer_id)
            connection.send_request(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close), lambda _: None)
            raise
        finally:
            self._subscribing = None
        if answer.type == BaseCommand.ERROR:
            connection.remove_consumer(consumer_id)
            self._owners.invalidate(subscribe.topic, self._identity)  # perhaps that is why
            raise OwnerRefusedError(answer.error.error, answer.error.message)
        if not connection.has_consumer(consumer_id):
            raise OwnerUnavailableError(
                f"the owner of {self.subscribe_command.topic} closed the consumer as soon as it was there"
            )
        self._connection, self._consumer_id = connection, consumer_id
        self._acks_held = self.subscribe_count > 0
        self._owner_url = connection.direct_url
        self.subscribe_count += 1
        if self._grouped_acks is not None and not self._acks_held:
            self._grouped_acks.channel_opened(self, connection)
        if self._closed:
            await self.close()
        return answer

    async def state(self) -> OwnerCursorState:
        """Ask the owner where the subscription and the topic stand.

        Raises:
            RelayError: the owner cannot say now.
        """
        answer = await self.request(
            BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, get_last_message_id=CommandGetLastMessageId())
        )
        if answer.type == BaseCommand.ERROR:
            raise OwnerRefusedError(answer.error.error, answer.error.message)
        response = answer.get_last_message_id_response
        last = Position(response.last_message_id.ledger_id, response.last_message_id.entry_id)
        if not response.HasField("consumer_mark_delete_position"):
            return OwnerCursorState(None, last)
        mark_delete = response.consumer_mark_delete_position
        return OwnerCursorState(Position(mark_delete.ledger_id, mark_delete.entry_id), last)

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Relay a request of this consumer; its consumer id is replaced by the one at the owner.

        Raises:
            OwnerUnavailableError: the consumer is not at the owner now, or the owner does not answer.
        """
        if self._connection is None:
            raise OwnerUnavailableError(f"the owner of {self.subscribe_command.topic} is being looked up")
        self._flush_acks()
        body_of(command).consumer_id = self._consumer_id
        return await self._connection.request(command)

    async def request_with_retry(self, command: BaseCommand) -> BaseCommand:
        """Relay a question of this consumer, again where the owner has moved before it answered: the client does not see it move.

        Raises:
            OwnerUnavailableError: the owner does not answer in RETRY_TIMEOUT_S, or the consumer is not there any more.
        """
        try:
            async with asyncio.timeout(RETRY_TIMEOUT_S):
                while True:
                    if self._resubscribing is not None:
                        await wait_until_done(self._resubscribing)
                    try:
                        return await self.request(command)
                    except OwnerUnavailableError:
                        if self._resubscribing is None:
                            raise
        except TimeoutError as error:
            raise OwnerUnavailableError(
                f"the owner of {self.subscribe_command.topic} did not answer in {RETRY_TIMEOUT_S:g} s"
            ) from error

    @contextmanager
    def expecting_close(self) -> Iterator[None]:
        """While this lasts the owner is about to close the consumer, and its close is the client's too: a SEEK or UNSUBSCRIBE."""
        self._closing_requests += 1
        try:
            yield
        finally:
            self._closing_requests -= 1

    @property
    def unanswered(self) -> Iterable[CommandAck]:
        """The acks that the owner has not answered."""
        return (ack_of_entries(ack) if isinstance(ack, bytes) else ack for ack in self._unanswered.values())

    @property
    def confirmed_up_to(self) -> Position | None:
        """The last cumulative ack that the owner has answered; None for none."""
        return _cumulative_position(self._last_cumulative)

    def forget_answers(self) -> None:
        """The owner has lost acks that it had answered."""
        self._last_cumulative = None

    @property
    def possibly_lost(self) -> Iterator[tuple[Position | None, CommandAck]]:
        """The acks that the owner answered shortly before the connection to it broke, each with `confirmed_up_to` before it."""
        if self._recent is not None and self.lost_at is not None:
            for answered in self._recent.before(self.lost_at):
                encoded = answered.ack if isinstance(answered.ack, bytes) else answered.ack.SerializePartialToString()
                ack = ack_of_entries(encoded)
                ack.ClearField("request_id")  # the client has its receipt
                yield _cumulative_position(answered.cumulative_before), ack

    def resume_acks(self) -> None:
        """The owner's cursor is the one that was acked before: send what it has not answered, and what comes."""
        self.lost_at, self.closed_by_owner = None, False
        if self._connection is None or not self._acks_held:
            return
        self._acks_held = False
        for number, ack in list(self._unanswered.items()):
            self._send_ack(number, ack)
        if self._grouped_acks is not None:
            self._grouped_acks.channel_opened(self, self._connection)

    def send(self, command: BaseCommand) -> None:
        """Relay a command of this consumer that has no answer; one that the owner would not take ends the consumer."""
        if self._connection is not None:
            body_of(command).consumer_id = self._consumer_id
            if refused := self._connection.send(command):
                self._events.on_not_kept(refused)

    def ack(self, ack: CommandAck) -> None:
        """Ack at the owner: now, or as soon as the consumer is there again. Kept until the owner has answered."""
        self._ack(ack)

    def ack_entries(self, ids: bytes) -> None:
        """Ack whole entries, given as fields `message_id` of a CommandAck; as `ack`."""
        self._ack(ids)

    def _ack(self, ack: CommandAck | bytes) -> None:
        self._last_ack += 1
        number = self._last_ack
        self._unanswered[number] = ack
        if self._connection is not None and not self._acks_held:
            self._flush_acks()
            self._send_ack(number, ack)

    async def wait_for_acks(self) -> None:
        """Wait until the owner has answered every ack."""
        if self._grouped_acks is not None:
            await self._grouped_acks.wait_for_acks()
        if self._unanswered:
            self._acks_answered = self._acks_answered or asyncio.Event()
            await self._acks_answered.wait()

    def share_acks(self, acks: GroupedAckSender) -> None:
        """Be a way to the owner for acks that consumers of the subscription send together."""
        self._grouped_acks = acks
        if self._connection is not None and not self._acks_held:
            acks.channel_opened(self, self._connection)

    def send_acks(self, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Send acks of this consumer and others; `answered` is called later with the answer, with None when none will come."""
        if self._connection is None:
            asyncio.get_running_loop().call_soon(on_response, None)
        else:
            self._connection.ack(self._consumer_id, ids, on_response)

    def _flush_acks(self) -> None:
        """What was acked before comes before what is sent now."""
        if self._grouped_acks is not None and self._connection is not None:
            self._grouped_acks.flush(self._connection)

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the consumer at the owner.

        Args:
            command: the client's CLOSE_CONSUMER, if it closes it.

        Returns:
            The owner's answer; None where the consumer was not there.
        """
        self._closed = True
        if self._resubscribing is not None:
            self._resubscribing.cancel()
        grouped_acks = self._grouped_acks
        if grouped_acks is not None:
            grouped_acks.channel_closing(self, self._connection)
        connection, self._connection = self._connection, None
        if connection is None:
            if grouped_acks is not None:
                grouped_acks.channel_closed(self)
            return None
        if command is None:
            command = BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=CommandCloseConsumer())
        command.close_consumer.consumer_id = self._consumer_id
        try:
            return await connection.request(command)
        except OwnerUnavailableError:
            return None
        finally:
            connection.remove_consumer(self._consumer_id)
            if grouped_acks is not None:
                grouped_acks.channel_closed(self)  # the owner would have answered by now

    # Resident

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """Called by the connection."""
        if command.type == BaseCommand.CLOSE_CONSUMER:
            connection = self._connection or self._subscribing
            if connection is not None:
                connection.remove_consumer(command.close_consumer.consumer_id)
            self.closed_by_owner = True
            if self._connection is not None:
                self._lost_owner()
        else:
            self._events.on_owner_command(command, payload)

    def on_connection_lost(self) -> None:
        """Called by the connection."""
        if self._connection is not None:  # else it is on its way, and `subscribe` finds out
            if self.lost_at is None:
                self.lost_at = asyncio.get_running_loop().time()
            self._lost_owner()

    # Coming back

    def _lost_owner(self) -> None:
        self._connection = None
        if self._grouped_acks is not None:
            self._grouped_acks.channel_closed(self)
        if self._closed:
            return
        if self._closing_requests or not self._zero_permit:
            self._closed = True
            self._events.on_not_kept("the owner closed the consumer")
        elif self._resubscribing is None:
            self._events.on_detached()
            self._resubscribing = asyncio.create_task(self._resubscribe())
            self._resubscribing.add_done_callback(self._resubscribe_ended)

    def _resubscribe_ended(self, task: asyncio.Task[None]) -> None:
        self._resubscribing = None
        if task.cancelled():
            return
        if task.exception() is not None:
            log.error(
                "%s: the consumer cannot come back to the owner",
                self.subscribe_command.topic,
                exc_info=task.exception(),
            )
            self._events.on_not_kept("internal error")
        elif self._connection is None and not self._closed:
            self._lost_owner()  # it broke again before the task had ended

    async def _resubscribe(self) -> None:
        pause = BACKOFF_S[0]
        while not self._closed:
            began = lease_time()
            try:
                if self._connection is None:
                    self._owners.invalidate(self.subscribe_command.topic, self._identity)
                    await self.subscribe()
                    if self._connection is None:
                        return  # closed meanwhile
                state = await self.state()
            except RelayError as error:
                if error.code in _NOT_RETRIABLE:
                    self._closed = True
                    self._events.on_not_kept(str(error))
                    return
                if self._owner_url and getattr(error, "refused", "") == self._owner_url:
                    self._events.on_owner_dead(began)
                    pause = min(pause, DEAD_OWNER_RETRY_S)
                log.info("%s: %s; trying again in %.1f s", self.subscribe_command.topic, error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_S[1])
                continue
            log.info(
                "%s: subscription %s is at the owner again",
                self.subscribe_command.topic,
                self.subscribe_command.subscription,
            )
            self._events.on_resubscribed(state)
            return

    def _send_ack(self, number: int, ack: CommandAck | bytes) -> None:
        assert self._connection is not None
        if isinstance(ack, bytes):
            self._connection.ack(self._consumer_id, ack, partial(self._on_ids_response, number, ack))
            return
        on_answer = partial(self._on_ack_response, number, ack)
        parts = split_ack(ack, self._connection.max_command_bytes)
        on_response = on_answer if len(parts) == 1 else ResponseAggregator(len(parts), on_answer).on_response
        for part in parts:
            command = BaseCommand(type=BaseCommand.ACK, ack=part)  # a copy
            command.ack.consumer_id = self._consumer_id
            self._connection.send_request(command, on_response)

    # Without an answer an ack stays, to be sent again.

    def _on_ids_response(self, number: int, ids: bytes, response: BaseCommand | None) -> None:
        if response is None or self._unanswered.pop(number, None) is None:
            return
        if self._recent is not None and response.type != _ERROR:
            self._recent.add(ids, asyncio.get_running_loop().time())
        self._check_acks_answered()

    def _on_ack_response(self, number: int, ack: CommandAck, response: BaseCommand | None) -> None:
        if response is None or self._unanswered.pop(number, None) is None:
            return
        if self._recent is not None and not ack.HasField("txnid_most_bits") and response.type != _ERROR:
            now = asyncio.get_running_loop().time()
            if ack.ack_type == _CUMULATIVE:
                self._recent.add(ack, now, self._last_cumulative)
                self._last_cumulative = ack  # taken apart when somebody asks: few ever do
            else:
                self._recent.add(ack.SerializePartialToString(), now, self._last_cumulative)
        if ack.HasField("request_id"):
            body_of(response).request_id = ack.request_id
            self._events.on_owner_command(response, b"")
        self._check_acks_answered()

    def _check_acks_answered(self) -> None:
        if not self._unanswered and self._acks_answered is not None:
            self._acks_answered.set()
            self._acks_answered = None


def _cumulative_position(ack: CommandAck | None) -> Position | None:
    """Up to where a cumulative ack goes, in whole entries. It has one id: of several an owner takes none."""
    if ack is None or not ack.message_id:
        return None
    upper = ack.message_id[0]
    return Position(upper.ledger_id, upper.entry_id - bool(upper.ack_set))
