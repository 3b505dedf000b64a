"""The consumer that a client's consumer has on the owner broker: it subscribes, acks, and withholds FLOW.

The stock owner authorizes this zero-permit consumer, keeps Exclusive exclusive, elects the active Failover consumer and holds
the cursor. It sends no messages: a consumer without permits gets none, and can ack any (measured).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from readonly_engine.clock import lease_time
from readonly_engine.owner.consumer_acks import ConsumerAcks
from readonly_engine.owner.consumer_events import OwnerCursorState, last_message_id_request
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.owner.resume import set_resume_position
from readonly_engine.owner.return_throttle import BACKOFF_S
from readonly_engine.waiting import wait_until_done
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer, CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.consumer_acks import EntryGate
    from readonly_engine.owner.consumer_events import ConsumerEvents
    from readonly_engine.owner.directory import OwnerDirectory
    from readonly_engine.owner.grouped_acks import GroupedAckSender
    from readonly_engine.owner.identity import Identity
    from readonly_engine.owner.return_throttle import ReturnThrottle
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandMessage

log = logging.getLogger(__name__)

DEAD_OWNER_RETRY_S = 2.0
"""Longest pause after the owner has died: reads go on while no broker has the topic, and each attempt proves that (lease.py)."""

RETRY_TIMEOUT_S = 20.0
"""Below the 30 s after which clients give up a request (operationTimeoutMs)."""


class OwnerConsumer:
    """One consumer on the owner broker; it follows the topic to each new owner.

    Args:
        owners: finds the owner.
        identity: the client's credentials.
        subscribe: the client's SUBSCRIBE.
        events: gets the events.
        zero_permit: whether FLOW is withheld. Without it, everything passes through, and the owner's close ends the consumer.
        peer_url: the broker of the pool that takes the owner's place for this consumer; empty for the owner itself.

    Attributes:
        connection: the connection on which the owner has the consumer now; None while it does not have it.
        subscribe_count: number of successful subscriptions.
        lost_at: time at which the connection broke, of the event loop's clock; None if it did not break since `resume_acks`.
        closed_by_owner: whether the owner has closed the consumer since `resume_acks`. An owner does so before it unloads the
            topic, which stores the cursor, and before it resets the cursor.
        resumed_at: position behind which the last SUBSCRIBE of a non-durable subscription asked to resume; None for the first.
    """

    __slots__ = (
        "_acks",
        "_closed",
        "_closing_requests",
        "_consumer_id",
        "_encoded_subscribe",
        "_events",
        "_gate",
        "_grouped_acks",
        "_holds_acks",
        "_identity",
        "_on_message",
        "_owner_url",
        "_owners",
        "_peer_url",
        "_resubscribing",
        "_subscribing",
        "_zero_permit",
        "closed_by_owner",
        "connection",
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
        self._encoded_subscribe = subscribe.SerializeToString()  # a third of the object's size, and seldom needed
        self._events = events
        self._zero_permit = zero_permit
        self._acks: ConsumerAcks | None = None  # since the first ack
        self._holds_acks = True
        self._gate: EntryGate | None = None
        self._grouped_acks: GroupedAckSender | None = None
        self.connection: OwnerConnection | None = None
        self._owner_url = ""
        self._subscribing: OwnerConnection | None = None
        self._consumer_id = 0
        self.subscribe_count = 0
        self._closed = False
        self._closing_requests = 0
        self._resubscribing: asyncio.Task[None] | None = None
        self._on_message: Callable[[CommandMessage, bytes], None] | None = None
        self.lost_at: float | None = None
        self.closed_by_owner = False
        self.resumed_at: Position | None = None

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, decoded at each access."""
        return CommandSubscribe.FromString(self._encoded_subscribe)

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """The connection to the topic's owner; None without one, and where another broker takes the owner's place."""
        return None if self._peer_url else self.connection

    @property
    def subscribed(self) -> bool:
        """Whether the owner has the consumer now."""
        return self.connection is not None

    # Subscribing

    async def subscribe(self) -> BaseCommand:
        """Subscribe on the owner.

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
            # Leave nothing on the owner, also when the client's own close has ended the wait.
            connection.remove_consumer(consumer_id)
            close = CommandCloseConsumer(consumer_id=consumer_id)
            connection.send_request(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close), lambda _: None)
            raise
        finally:
            self._subscribing = None
        if answer.type == BaseCommand.ERROR:
            connection.remove_consumer(consumer_id)
            self._owners.invalidate(subscribe.topic, self._identity)  # a former owner refuses, too
            raise OwnerRefusedError(answer.error.error, answer.error.message)
        if not connection.has_consumer(consumer_id):
            raise OwnerUnavailableError(f"the owner of {subscribe.topic} closed the consumer right after SUBSCRIBE")
        self.connection, self._consumer_id = connection, consumer_id
        self._owner_url = connection.direct_url
        self.subscribe_count += 1
        if self.subscribe_count == 1:
            self._open_acks(connection)
        if self._closed:
            await self.close()
        return answer

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the consumer on the owner.

        Args:
            command: the client's CLOSE_CONSUMER, if the client closes it.

        Returns:
            The owner's answer; None if the owner did not have the consumer, or does not answer.
        """
        self._closed = True
        if self._resubscribing is not None:
            self._resubscribing.cancel()
        if self._acks is not None:
            self._acks.release()
        grouped_acks = self._grouped_acks
        if grouped_acks is not None:
            grouped_acks.channel_closing(self, self.connection)
        connection, self.connection = self.connection, None
        self._hold_acks()
        if connection is None:
            self._forget_acks()
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
            self._forget_acks()
            if grouped_acks is not None:
                grouped_acks.channel_closed(self)  # answers to its acks would have come by now

    # Requests

    async def state(self) -> OwnerCursorState:
        """Ask the owner for the positions of the subscription and the topic.

        Raises:
            RelayError: the owner cannot answer now.
        """
        return OwnerCursorState.from_response(await self.request(last_message_id_request()))

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Relay a request of this consumer, under the consumer id that it has on the owner.

        Raises:
            OwnerUnavailableError: the owner does not have the consumer now, or does not answer.
        """
        if self.connection is None:
            raise OwnerUnavailableError(f"the owner of {self.subscribe_command.topic} is being looked up")
        if self._grouped_acks is not None:
            self._grouped_acks.flush(self.connection)  # earlier acks come first
        if command.type != BaseCommand.GET_LAST_MESSAGE_ID and self._acks is not None:
            self._acks.release()
        body_of(command).consumer_id = self._consumer_id
        return await self.connection.request(command)

    async def request_with_retry(self, command: BaseCommand) -> BaseCommand:
        """Relay a request of this consumer, and repeat it on the new owner if the topic moves before the answer.

        Raises:
            OwnerUnavailableError: no owner answers in RETRY_TIMEOUT_S, or the consumer has ended.
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
            reason = f"the owner of {self.subscribe_command.topic} did not answer in {RETRY_TIMEOUT_S:g} s"
            raise OwnerUnavailableError(reason) from error

    def send(self, command: BaseCommand) -> None:
        """Relay a command that has no answer. A command above the owner's frame limit ends the consumer."""
        if self.connection is not None:
            body_of(command).consumer_id = self._consumer_id
            if refused := self.connection.send(command):
                self._events.on_closed_by_owner(refused)

    def take_messages(self, on_message: Callable[[CommandMessage, bytes], None] | None) -> None:
        """Call back with the MESSAGEs of a zero-permit consumer, and their stored entries; None to drop them."""
        self._on_message = on_message

    @contextmanager
    def expecting_close(self) -> Iterator[None]:
        """Take the owner's close for the client's own, while the context lasts: SEEK and UNSUBSCRIBE close the consumer."""
        self._closing_requests += 1
        try:
            yield
        finally:
            self._closing_requests -= 1

    # Acks

    def ack(self, ack: CommandAck) -> bool:
        """Ack on the owner, at once or after the return to it; return True. The ack is kept until the owner has answered."""
        self._made_acks().add(ack)
        return True

    def ack_entries(self, ids: bytes) -> None:
        """Ack whole entries, given as fields `message_id` of a CommandAck; otherwise as `ack`."""
        self._made_acks().add(ids)

    def send_acks(self, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Send acks of this consumer and others; `on_response` gets the answer later, or None if none will come."""
        if self.connection is None:
            asyncio.get_running_loop().call_soon(on_response, None)
        else:
            self.connection.ack(self._consumer_id, ids, on_response)

    def share_acks(self, acks: GroupedAckSender) -> None:
        """Let the subscription's consumers send their grouped acks through this one."""
        self._grouped_acks = acks
        if self._acks is not None:
            self._acks.grouped = acks
        if self.connection is not None and not self._holds_acks:
            acks.channel_opened(self, self.connection)

    def hold_early_acks(self, gate: EntryGate) -> None:
        """Let acks with a request id wait until the owner counts their entries. A broker of the pool counts none."""
        if not self._peer_url:
            self._gate = gate
            if self._acks is not None:
                self._acks.gate = gate

    def resume_acks(self) -> None:
        """Send the unanswered acks, and later ones: the owner's cursor is the one to which they belong."""
        self.lost_at, self.closed_by_owner = None, False
        if self.connection is not None and self._holds_acks:
            self._open_acks(self.connection)

    def _open_acks(self, connection: OwnerConnection) -> None:
        self._holds_acks = False
        if self._acks is not None:
            self._acks.open(connection, self._consumer_id)
        if self._grouped_acks is not None:
            self._grouped_acks.channel_opened(self, connection)

    def _made_acks(self) -> ConsumerAcks:
        acks = self._acks
        if acks is None:
            keep_answered = self._zero_permit and self.subscribe_command.durable
            acks = self._acks = ConsumerAcks(self._events, keep_answered=keep_answered)
            acks.gate, acks.grouped = self._gate, self._grouped_acks
            if self.connection is not None and not self._holds_acks:
                acks.open(self.connection, self._consumer_id)
        return acks

    def _hold_acks(self) -> None:
        self._holds_acks = True
        if self._acks is not None:
            self._acks.hold()

    def _forget_acks(self) -> None:
        if self._acks is not None:
            self._acks.forget()

    async def wait_for_acks(self) -> None:
        """Wait until the owner has answered every ack."""
        if self._acks is not None:
            await self._acks.wait_until_answered()
        elif self._grouped_acks is not None:
            await self._grouped_acks.wait_for_acks()

    def ack_receipt(self) -> Callable[[], bool] | None:
        """Return a function that returns whether the owner has answered all acks until now; None if it has."""
        return None if self._acks is None else self._acks.receipt()

    @property
    def unanswered(self) -> Iterable[CommandAck]:
        """The acks that the owner has not answered."""
        return () if self._acks is None else self._acks.unanswered

    @property
    def confirmed_up_to(self) -> Position | None:
        """The position of the last cumulative ack that the owner has answered; None without one."""
        return None if self._acks is None else self._acks.confirmed_up_to

    def forget_answers(self) -> None:
        """Drop `confirmed_up_to`: the owner has lost acks that it had answered."""
        if self._acks is not None:
            self._acks.forget_confirmed()

    @property
    def possibly_lost(self) -> Iterable[tuple[Position | None, CommandAck]]:
        """The acks that the owner answered shortly before the connection broke, each with `confirmed_up_to` before it."""
        return () if self.lost_at is None or self._acks is None else self._acks.possibly_lost(self.lost_at)

    # Events of the connection

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle a command of the owner."""
        if command.type == BaseCommand.CLOSE_CONSUMER:
            connection = self.connection or self._subscribing
            if connection is not None:
                connection.remove_consumer(command.close_consumer.consumer_id)
            self.closed_by_owner = True
            if self.connection is not None:
                self._on_owner_lost()
        elif command.type == BaseCommand.MESSAGE and self._zero_permit:
            if self._on_message is not None:  # otherwise it comes for permits that a request had left unused
                self._on_message(command.message, payload)
        else:
            self._events.on_owner_command(command, payload)

    def on_connection_lost(self) -> None:
        """Handle the end of the connection."""
        if self.connection is not None:  # otherwise `subscribe` is running, and fails
            if self.lost_at is None:
                self.lost_at = asyncio.get_running_loop().time()
            self._on_owner_lost()

    # Return to the owner

    def _on_owner_lost(self) -> None:
        self.connection = None
        self._hold_acks()
        if self._grouped_acks is not None:
            self._grouped_acks.channel_closed(self)
        if self._closed:
            return
        if self._closing_requests or not self._zero_permit:
            self._closed = True
            self._events.on_closed_by_owner("the owner closed the consumer")
        elif self._resubscribing is None:
            leased = self._events.on_detached()
            self._resubscribing = asyncio.create_task(self._resubscribe(leased=leased))
            self._resubscribing.add_done_callback(self._on_resubscribe_done)

    def _on_resubscribe_done(self, task: asyncio.Task[None]) -> None:
        self._resubscribing = None
        if task.cancelled():
            return
        if task.exception() is not None:
            log.error("resubscribe failed: topic=%s", self.subscribe_command.topic, exc_info=task.exception())
            self._events.on_closed_by_owner("internal error")
        elif self.connection is None and not self._closed:
            self._on_owner_lost()  # the connection broke again before the task had ended

    async def _resubscribe(self, *, leased: bool) -> None:
        returns = self._owners.returns_from(self._peer_url or self._owner_url)
        if leased:
            returns.leaseholders[self._events] = None
        try:
            await self._return(returns)
        finally:
            returns.leaseholders.pop(self._events, None)

    async def _return(self, returns: ReturnThrottle) -> None:
        subscribe = self.subscribe_command
        topic, subscription = subscribe.topic, subscribe.subscription
        while not self._closed:
            async with returns.slots:
                began = lease_time()
                try:
                    if self.connection is None:
                        self._owners.invalidate(topic, self._identity)
                        await self.subscribe()
                        if self.connection is None:
                            return  # closed meanwhile
                    state = await self.state()
                except RelayError as error:
                    if not error.retriable:
                        self._closed = True
                        self._events.on_closed_by_owner(str(error))
                        return
                    longest = BACKOFF_S[1]
                    if self._owner_url and getattr(error, "refused", "") == self._owner_url:
                        returns.owner_dead(began)
                        longest = DEAD_OWNER_RETRY_S
                    pause = returns.backoff.failed(lease_time(), longest)
                    log.info("resubscribe failed: topic=%s retry_in=%.1fs error=%s", topic, pause, error)
                    await asyncio.sleep(pause)
                    continue
            returns.backoff.succeeded()
            log.info("resubscribed on the owner: topic=%s subscription=%s", topic, subscription)
            self._events.on_resubscribed(state)
            return
