"""What the owner says of the clients of local subscriptions: whether they may consume, and where they begin."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.background import end_with, run_forever
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.consumer_events import OwnerCursorState, last_message_id_request
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.topic.position import EARLIEST
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.directory import OwnerDirectory
    from readonly_engine.owner.identity import Identity
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

ACCESS_PREFIX: Final = "pulsar-readonly-access-"
"""Begin of the names of read-only brokers' subscriptions that last for one question."""

AUTHORIZED_S: Final = 60.0
"""Age at which the owner is asked again whether a connected consumer may consume."""

CHECKS_PER_S: Final = 200.0
"""Bound of these questions. With more than 12,000 consumers an answer gets older: 5 ms for each consumer."""

CHECK_INTERVAL_S: Final = 1.0

MAX_CHECKS: Final = 50
"""Questions under way at the same time, so that a silent owner does not hold up those to others."""

ATTEMPTS: Final = 5
"""Attempts to subscribe: an owner may still remove the last one's subscription of the same name."""

RETRY_S: Final = 0.05

SHARED_INTERVAL_S: Final = 0.05
"""Shortest interval of equal questions that do not depend on a subscription. Later callers share the next one."""

MAX_INTERVALS: Final = 10_000
"""Bound of the questions of which the last time is known."""

_REVOKED: Final = frozenset({ServerError.AuthorizationError, ServerError.AuthenticationError})


class Authorized(Protocol):
    """A consumer that the owner has authorized."""

    @property
    def topic(self) -> TopicName:
        """Its topic."""

    @property
    def identity(self) -> Identity:
        """The client's credentials."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE."""

    def end(self, reason: str) -> None:
        """Close the consumer: the owner does not authorize it any more."""


class NoEvents:
    """Ignores the events of an OwnerConsumer that lasts for one answer."""

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Ignore a command of the owner."""

    def on_detached(self) -> bool:
        """Ignore a move of the owner."""
        return False

    def mark_delete_position(self) -> Position | None:
        """Return None."""
        return None

    def on_owner_dead(self, checked_at: float) -> bool:  # noqa: ARG002
        """Ignore the end of the owner's process."""
        return False

    def on_resubscribed(self, state: OwnerCursorState) -> None:
        """Ignore the return to the owner."""

    def on_closed_by_owner(self, reason: str) -> None:
        """Ignore the end of the consumer: its next request fails."""


def probe_of(subscribe: CommandSubscribe) -> CommandSubscribe:
    """Return the SUBSCRIBE of a non-durable subscription that begins where a new subscription of the client would.

    An owner authorizes it as the client's own: for the topic, and for the subscription's name.
    """
    probe = CommandSubscribe()
    probe.CopyFrom(subscribe)
    for name in ("replicate_subscription_state", "subscription_properties", "metadata"):
        probe.ClearField(name)
    probe.durable = False
    probe.ClearField("start_message_id")
    if subscribe.initial_position == CommandSubscribe.Earliest:
        probe.start_message_id.ledger_id, probe.start_message_id.entry_id = EARLIEST
    return probe


class OwnerAccess:
    """Asks owners, with the credentials of clients.

    A lookup would be cheaper, but it checks neither the right to consume nor the subscription. So a zero-permit consumer of a
    non-durable subscription is opened and closed at once. It brings the initial position, too, and a durable subscription of the
    same name at the owner refuses it.

    Args:
        owners: connections to the owner brokers.
        authorizes: returns whether the source cluster authorizes clients; None if unknown.
        name: begin of the names of subscriptions that need no client's name.
    """

    def __init__(self, owners: OwnerDirectory, authorizes: Callable[[], Awaitable[bool | None]], name: str) -> None:
        self._owners = owners
        self._authorizes = authorizes
        self._name = name
        self._numbers = count(1)
        self._shared: SingleFlight[BaseCommand] = SingleFlight()
        self._asked_at: OrderedDict[Hashable, float] = OrderedDict()
        self._names: dict[tuple[TopicName, str], asyncio.Lock] = {}
        self._users: Counter[tuple[TopicName, Identity]] = Counter()
        self._connections: dict[tuple[TopicName, Identity], OwnerConnection] = {}
        self._connecting: dict[tuple[TopicName, Identity], asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MAX_CHECKS)
        self._checks: set[asyncio.Task[None]] = set()
        self._authorized: dict[Authorized, float] = {}  # the longest unasked first; a third of an OrderedDict
        self._checking: asyncio.Task[None] | None = None

    async def subscribe(self, consumer: Authorized, *, new: bool) -> OwnerCursorState | None:
        """Check that a client may consume.

        Args:
            consumer: its consumer.
            new: whether the subscription does not exist yet, so that its initial position is needed.

        Returns:
            The initial mark-delete position, and the topic's last entry; None if neither was needed.

        Raises:
            RelayError: the owner refuses the client, or does not answer.
        """
        answer = None
        subscribe = consumer.subscribe_command
        if await self._authorizes() is not False:
            answer = await self._probe(consumer, probe_of(subscribe))
        elif new or subscribe.HasField("schema"):
            answer = await self._shared_probe(consumer, probe_of(subscribe))
        return None if answer is None else OwnerCursorState.from_response(answer)

    async def begin_at(self, consumer: Authorized, position: Position) -> Position:
        """Return the mark-delete position of a cursor that reads a position next, or the nearest one that exists.

        Args:
            consumer: a consumer.
            position: the position; that of MessageId.earliest or MessageId.latest, too.

        Raises:
            RelayError: the owner refuses the client, or does not answer.
        """
        probe = probe_of(consumer.subscribe_command)
        probe.ClearField("start_message_rollback_duration_sec")
        probe.ClearField("initial_position")  # it decides for MessageId.latest (ManagedLedgerImpl.newNonDurableCursor)
        probe.start_message_id.Clear()
        probe.start_message_id.ledger_id, probe.start_message_id.entry_id = position
        answer = await self._probe(consumer, probe)
        found = OwnerCursorState.from_response(answer)
        return found.last if found.mark_delete is None else found.mark_delete

    def consumer_at_owner(self, consumer: Authorized, subscribe: CommandSubscribe) -> OwnerConsumer:
        """Return a consumer at the owner without permits, with a client's credentials. The owner's close ends it.

        Args:
            consumer: the client's consumer.
            subscribe: its SUBSCRIBE at the owner.
        """
        return OwnerConsumer(self._owners, consumer.identity, subscribe, NoEvents(), zero_permit=False)

    def add(self, consumer: Authorized) -> None:
        """Ask again from time to time whether a consumer may consume, and keep a connection to its owner, until `remove`."""
        self._authorized[consumer] = asyncio.get_running_loop().time()
        self._users[consumer.topic, consumer.identity] += 1
        self.connection(consumer.topic, consumer.identity)
        if self._checking is None:
            self._checking = run_forever(self._check_authorized, "the check of local subscriptions' consumers")

    def remove(self, consumer: Authorized) -> bool:
        """Forget a consumer; return whether it was added."""
        if self._authorized.pop(consumer, None) is None:
            return False
        key = (consumer.topic, consumer.identity)
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]
            self._connections.pop(key, None)
        return True

    async def last(self, consumer: Authorized) -> BaseCommand:
        """Return the owner's answer to GET_LAST_MESSAGE_ID; concurrent callers share one.

        Raises:
            RelayError: the owner refuses the client, or does not answer.
        """
        probe = probe_of(consumer.subscribe_command)
        probe.ClearField("start_message_id")
        probe.ClearField("start_message_rollback_duration_sec")
        if await self._authorizes() is not False:
            return await self._probe(consumer, probe)
        return await self._shared_probe(consumer, probe)

    def connection(self, topic: TopicName, identity: Identity) -> OwnerConnection | None:
        """Return a client's connection to a topic's owner; None while there is none, and one is being opened."""
        key = (topic, identity)
        found = self._connections.get(key)
        if found is not None and not found.closed:
            return found
        if key in self._users and key not in self._connecting:
            task = self._connecting[key] = asyncio.get_running_loop().create_task(self._connect(topic, identity))
            task.add_done_callback(lambda _: self._connecting.pop(key, None))
        return None

    async def _connect(self, topic: TopicName, identity: Identity) -> None:
        try:
            found = await self._owners.owner_of(str(topic), identity)
            if (topic, identity) in self._users:
                self._connections[topic, identity] = found
        except RelayError as error:
            log.info("owner of a topic with local subscriptions not found: topic=%s error=%s", topic, error)

    def close(self) -> None:
        """Stop all questions."""
        for task in (self._checking, *self._connecting.values(), *self._checks):
            if task is not None:
                task.cancel()

    async def _shared_probe(self, consumer: Authorized, probe: CommandSubscribe) -> BaseCommand:
        """Ask in a way that does not depend on the subscription's name; concurrent callers share an answer."""
        probe.subscription = probe.consumer_name = ""
        probe.consumer_id = probe.request_id = 0
        probe.sub_type = CommandSubscribe.Exclusive
        for name in ("key_shared_meta", "priority_level", "consumer_epoch"):
            probe.ClearField(name)
        identity = consumer.identity

        key = (consumer.topic, identity, probe.SerializeToString())
        loop = asyncio.get_running_loop()

        async def ask() -> BaseCommand:
            wait = self._asked_at.get(key, 0.0) + SHARED_INTERVAL_S - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            self._asked_at[key] = loop.time()
            self._asked_at.move_to_end(key)
            if len(self._asked_at) > MAX_INTERVALS:
                self._asked_at.popitem(last=False)
            own = CommandSubscribe()
            own.CopyFrom(probe)
            own.subscription = own.consumer_name = f"{self._name}{next(self._numbers)}"
            return await self._ask(identity, own)

        return await self._shared.run(key, ask)

    async def _probe(self, consumer: Authorized, probe: CommandSubscribe) -> BaseCommand:
        """Ask with the subscription's own name, one at a time.

        Raises:
            RelayError: the owner refuses the client, or does not answer.
        """
        key = (consumer.topic, probe.subscription)
        lock = self._names.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                for _ in range(ATTEMPTS - 1):
                    try:
                        return await self._ask(consumer.identity, probe)
                    except OwnerRefusedError as error:
                        if not error.retriable and error.code != ServerError.ConsumerBusy:
                            raise
                    await asyncio.sleep(RETRY_S)
                return await self._ask(consumer.identity, probe)
        finally:
            if not lock.locked() and self._names.get(key) is lock:
                del self._names[key]

    async def _ask(self, identity: Identity, probe: CommandSubscribe) -> BaseCommand:
        asking = OwnerConsumer(self._owners, identity, probe, NoEvents(), zero_permit=True)
        await asking.subscribe()
        try:
            answer = await asking.request(last_message_id_request())
        except OwnerUnavailableError as error:
            if not asking.closed_by_owner:
                raise
            # It has joined the last question's subscription of the same name, which the owner was removing.
            raise OwnerRefusedError(ServerError.ServiceNotReady, str(error)) from error
        finally:
            await asking.close()
        if answer.type == BaseCommand.ERROR:
            raise OwnerRefusedError(answer.error.error, answer.error.message)
        return answer

    async def _check_authorized(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            now = asyncio.get_running_loop().time()
            if not self._authorized or now - next(iter(self._authorized.values())) < AUTHORIZED_S:
                continue
            if await self._authorizes() is False:
                self._authorized = dict.fromkeys(self._authorized, now)
                continue
            for consumer, at in list(self._authorized.items()):
                if now - at < AUTHORIZED_S:
                    break
                if self._authorized.pop(consumer, None) is None:
                    continue
                self._authorized[consumer] = now
                await self._slots.acquire()
                task = asyncio.get_running_loop().create_task(self._check(consumer))
                self._checks.add(task)
                task.add_done_callback(self._checked)
                end_with(task, lambda _, consumer=consumer: consumer.end("internal error"))  # type: ignore[misc]
                await asyncio.sleep(1 / CHECKS_PER_S)

    def _checked(self, task: asyncio.Task[None]) -> None:
        self._checks.discard(task)
        self._slots.release()

    async def _check(self, consumer: Authorized) -> None:
        try:
            await self._probe(consumer, probe_of(consumer.subscribe_command))
        except RelayError as error:
            if error.code in _REVOKED:
                consumer.end(str(error))
            else:
                log.info("consumer's permission unknown: topic=%s error=%s", consumer.topic, error)
