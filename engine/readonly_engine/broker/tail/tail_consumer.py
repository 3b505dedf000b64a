"""Subscription at a topic's owner that brings its new entries, as one broker's reader of the tail."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.background import ends
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.broker.tail.budget import RETURN_S, PushBudget, PushTotals, SourceSchedule
from readonly_engine.broker.tail.idle_checks import IdleChecks
from readonly_engine.broker.tail.tail_splice import TailSplice
from readonly_engine.owner.errors import OwnerRefusedError, RelayError
from readonly_engine.owner.resume import set_resume_position
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.view import Follow
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.entry_view import summarize
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandSubscribe,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.fanout.tail_fanout import TailFanout
    from readonly_engine.broker.tail.budget import TailSettings
    from readonly_engine.broker.tail.owner_probes import OwnerProbes
    from readonly_engine.broker.tail.splicing import Splicing
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.topic.log import TopicLog

log = logging.getLogger(__name__)

_MESSAGE: Final = BaseCommand.MESSAGE

RETRY_S: Final = (1.0, 60.0)
"""First and longest wait after the owner went away or did not answer."""

PUSH_WAIT_S: Final = 2.0
"""Time from a SUBSCRIBE in which the owner should push. Bookies are polled from then on."""

ACK_S: Final = 180.0
"""Longest time that a pushed entry is unacked, where the owner needs no permits meanwhile. The cursor is not stored, and holds no
ledger; acks only keep a backlog out of statistics. A timer of each topic makes them, so they should be rare."""

REFUSED_RETRY_S: Final = 300.0
"""Wait after the owner refused the subscription, for want of a permission or above a limit."""

LEFT_S: Final = 1.0
"""Wait after a consumer of the connection has left: more may leave, and its client may subscribe again."""


class TailLinks(Protocol):
    """What a topic's tail needs of its owner and its consumers."""

    def connection(self, present: OwnerConnection | None) -> OwnerConnection | None:
        """Return this connection to the owner if a consumer of the topic has it, else that of any; None while there is none."""

    async def push_obstacle(self) -> str:
        """Return the policy that forbids one more subscription, empty for none.

        Raises:
            RelayError: the owner does not answer.
        """

    def count_tail_change(self) -> None:
        """Count a change between pushes and reads from bookies."""

    def poll_delay(self, now: float) -> float:
        """Return the seconds after the end of the pushes until the topic may poll bookies.

        Args:
            now: the loop's time.
        """

    def guarding(self) -> bool:
        """Return whether the cluster may have transactions."""

    def subscriptions(self) -> int:
        """Return the number of the topic's subscriptions on this broker."""


class PushListener(Protocol):
    """What else learns of pushed entries (TopicTransactions)."""

    def on_pushed(self, entries: list[TopicEntry]) -> None:
        """Handle entries that the owner has pushed: consumers may read up to there, and their transactions are committed."""


class TailConsumer:
    """Lets the owner push a topic's entries into its log while they are few, instead of polls at bookies.

    A non-durable Exclusive subscription with permits. It starts at the end of the log, so no entry is missed when the polls
    end. When the budget is exhausted, the consumer is closed, and bookies are polled from the same position on. The owner
    delivers neither markers nor messages of aborted transactions; the log reads these from bookies before the next message.

    The connection has the credentials of a client. When its last consumer of the topic leaves, the subscription moves to the
    connection of another consumer, and bookies are polled meanwhile.

    Args:
        log_: the topic's log.
        links: the topic's owner and consumers.
        transactions: gets the pushed entries before the log.
        probes: notices owners that are silent.
        settings: name of the subscription, and bound of the pushes.
        fanout: the topic's fan-out.
        splicing: what all splices share; None for no splices.

    Attributes:
        settings: as above.
        pushed: whether the owner pushes now.
        changes: number of changes between pushes and reads from bookies.
    """

    __slots__ = (
        "_ack_timer",
        "_budget",
        "_check_timer",
        "_checking",
        "_checks",
        "_closed",
        "_connection",
        "_consumer_id",
        "_counted",
        "_failure",
        "_fanout",
        "_gaps",
        "_leave_timer",
        "_links",
        "_log",
        "_loop",
        "_next",
        "_ownerless",
        "_probes",
        "_pushed_at",
        "_rate",
        "_refused",
        "_retry_s",
        "_schedule",
        "_splice",
        "_splicing",
        "_starting",
        "_subscribing",
        "_timer",
        "_transactions",
        "_unacked",
        "_waiting",
        "changes",
        "settings",
    )

    def __init__(
        self,
        log_: TopicLog,
        links: TailLinks,
        transactions: PushListener,
        probes: OwnerProbes,
        settings: TailSettings,
        fanout: TailFanout | None = None,
        splicing: Splicing | None = None,
    ) -> None:
        self._log = log_
        self.settings = settings
        self._links = links
        self._transactions = transactions
        self._probes = probes
        self._loop = asyncio.get_running_loop()
        self._rate = settings.rate
        self._budget: PushBudget | None = None  # since the first entry
        self._pushed_at: float | None = None
        self._schedule: SourceSchedule | None = None  # since the budget was first exhausted
        self._connection: OwnerConnection | None = None
        self._subscribing: OwnerConnection | None = None
        self._consumer_id = 0
        self._starting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._retry_s = RETRY_S[0]
        self._refused = self._failure = ""
        self._ownerless = False  # whether it waits until a consumer of the topic has returned to the owner
        self._counted = EARLIEST
        self._next: tuple[int, int] = EARLIEST
        self._closed = False
        self._checks: IdleChecks | None = None  # where entries may come that are not pushed
        self._gaps = False
        self._unacked: Position | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._leave_timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._checking: asyncio.Task[None] | None = None
        self._fanout, self._splicing = fanout, splicing
        self._splice: TailSplice | None = None  # since the first entry
        self.changes = 0

    @property
    def pushed(self) -> bool:
        """Whether the owner pushes now."""
        return self._connection is not None

    @property
    def delivered(self) -> PushTotals:
        """What the owner has pushed."""
        if self._splice is not None and self._splice.running:
            self._splice.flush()
        return PushTotals() if self._budget is None else self._budget.delivered

    def start(self) -> None:
        """Subscribe, unless that is done, under way or due later. A consumer has joined the topic, or returned to its owner."""
        if self._closed or self._connection is not None or self._starting is not None:
            return
        if self._timer is not None:
            if not self._ownerless:
                return
            self._timer.cancel()
        self._begin()

    def followed(self) -> None:
        """Handle a change of what the log's listeners need: the owner pushes nothing while they need only the ledgers."""
        if self._log.followed > Follow.LEDGERS:
            self.start()
        elif self._connection is not None:
            self._unsubscribe()

    def policies_changed(self) -> None:
        """Look at the policies again: one that is new may slow down the pushes, and one that is gone may have forbidden them."""
        if self._closed or self._starting is not None:
            return
        if self._connection is not None:
            self._starting = self._loop.create_task(self._stop_if_forbidden())
            self._starting.add_done_callback(self._started)
        elif self._refused and self._timer is not None:
            self._timer.cancel()
            self._begin()

    def consumer_left(self, connection: OwnerConnection | None) -> None:
        """Leave the connection of a consumer that has left, unless another consumer of the topic has it."""
        used = connection is not None and (connection is self._connection or connection is self._subscribing)
        if used and self._leave_timer is None:
            self._leave_timer = self._loop.call_later(LEFT_S, self._leave_unused)

    @ends("close")
    def _leave_unused(self) -> None:
        self._leave_timer = None
        if self._starting is not None:
            self._leave_timer = self._loop.call_later(LEFT_S, self._leave_unused)
        elif self._connection is not None and self._links.connection(self._connection) is not self._connection:
            self._unsubscribe()
            self._begin()

    async def _stop_if_forbidden(self) -> None:
        obstacle = await self._links.push_obstacle()
        if obstacle and self._connection is not None:
            self._unsubscribe()
            self._not_allowed(obstacle)

    def close(self) -> None:
        """Close the subscription. The log is closed by its owner."""
        self._closed = True
        for timer in (self._timer, self._leave_timer, self._waiting):
            if timer is not None:
                timer.cancel()
        for task in (self._starting, self._checking):
            if task is not None:
                task.cancel()
        self._unsubscribe()
        self._log.expect_no_push()

    # Subscribing

    @ends("close")
    def _begin(self) -> None:
        self._timer = None
        if self._closed or self._log.followed is Follow.LEDGERS:
            return
        self._ownerless = self._lacks_connection()
        if self._ownerless:
            if self._waiting is None:
                self._poll_bookies()
            self._retry_later()
            return
        if self._waiting is None:
            self._waiting = self._loop.call_later(PUSH_WAIT_S, self._poll_bookies)
        self._starting = self._loop.create_task(self._subscribe())
        self._starting.add_done_callback(self._started)

    def _lacks_connection(self) -> bool:
        connection = self._links.connection(None)
        return connection is None or connection.closed

    @ends("close")
    def _poll_bookies(self) -> None:
        """Poll bookies, unless the owner pushes."""
        self._end_wait()
        self._log.expect_no_push()

    def _end_wait(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        if not self._closed:
            self._timer = self._loop.call_later(seconds, call)

    @ends("close")
    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            if self._connection is not None:
                self._end_wait()
            elif not self._ownerless:
                self._poll_bookies()
            self.start()  # where the pushes ended meanwhile, and are wanted again
            return
        # While the owner still has this broker's consumer of a connection that is gone, another one is refused as busy.
        busy = isinstance(error, OwnerRefusedError) and error.code == ServerError.ConsumerBusy
        if isinstance(error, OwnerRefusedError) and not error.retriable and not busy:
            self._not_allowed(str(error))
            return
        if not isinstance(error, RelayError):
            log.error("tail subscription failed unexpectedly: topic=%s", self._log.topic, exc_info=error)
        elif self._failure != str(error):
            self._failure = str(error)
            log.info("tail subscription failed, trying again: topic=%s error=%s", self._log.topic, error)
        self._retry_later()

    def _retry_later(self) -> None:
        """Subscribe after a wait that doubles until it succeeds."""
        self._later(self._retry_s, self._begin)
        self._retry_s = min(2 * self._retry_s, RETRY_S[1])

    def _not_allowed(self, reason: str) -> None:
        """Leave the tail to bookies for a while, and log the reason once."""
        self._poll_bookies()
        if self._refused != reason:
            self._refused = reason
            log.info(
                "the owner may not push new entries, reading them from bookies: topic=%s subscription=%s reason=%s",
                self._log.topic,
                self.settings.subscription,
                reason,
            )
        self._later(REFUSED_RETRY_S, self._begin)

    async def _subscribe(self) -> None:
        """Subscribe at the end of the log, and end the polls.

        Raises:
            RelayError: the owner does not answer, or refuses.
        """
        connection = self._links.connection(None)
        if connection is None:
            self._ownerless = True
            self._retry_later()
            return
        if obstacle := await self._links.push_obstacle():
            self._not_allowed(obstacle)
            return
        start = self._log.limit or EARLIEST
        subscribe = CommandSubscribe(
            topic=str(self._log.topic),
            subscription=self.settings.subscription,
            sub_type=CommandSubscribe.Exclusive,
            consumer_name=self.settings.subscription,
            durable=False,
            initial_position=CommandSubscribe.Earliest,
            force_topic_creation=False,
        )
        set_resume_position(subscribe, start)
        consumer_id = subscribe.consumer_id = connection.add_consumer(self)
        subscribed = False
        self._subscribing = connection
        try:
            answer = await connection.subscribe(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe))
            if answer.type == BaseCommand.ERROR:
                raise OwnerRefusedError(answer.error.error, answer.error.message)
            subscribed = connection.has_consumer(consumer_id)
        finally:
            self._subscribing = None
            if not subscribed:
                self._close_consumer(connection, consumer_id)
        if not subscribed:
            self._later(self._retry_s, self._begin)
            return
        now = self._loop.time()
        self._apply_bound()
        needed = self._log.followed > Follow.LEDGERS
        permits = 0
        if needed:  # the first window does not exhaust a full budget
            permits = self._rate.window if self._budget is None else self._budget.take(self._rate.window, now)
        if not permits:
            self._close_consumer(connection, consumer_id)
            self._later(RETURN_S[0], self._begin)
            return
        self._connection, self._consumer_id = connection, consumer_id
        connection.call_with_entries(consumer_id, self)
        self._probes.add(self, connection)
        self._retry_s, self._refused, self._failure = RETRY_S[0], "", ""
        self._pushed_at = now
        self._changed()
        self._log.suspend_polls()
        self._flow(permits)
        self._check_after(now)

    def _apply_bound(self) -> None:
        """Bound the pushes by the present number of readers and the places of the bookies."""
        log_ = self._log
        rate = self.settings.rate_for(
            self._links.subscriptions(), across_zones=log_.has_nearer_replicas, end_only=log_.followed < Follow.ENTRIES
        )
        if rate != self._rate:
            self._rate = rate
            if self._budget is not None:
                self._budget.set_rate(rate)
            if self._schedule is not None:
                self._schedule.set_rate(rate)

    def _spent(self) -> PushBudget:
        """Return the budget while the owner pushes. Until the first entry it is full, but for one window."""
        if self._budget is None:
            now = self._loop.time()
            self._budget = PushBudget(self._rate, now)
            self._budget.take(self._rate.window, now)
        return self._budget

    def _flow(self, permits: int) -> None:
        if self._connection is not None:
            flow = CommandFlow(consumer_id=self._consumer_id, message_permits=permits)
            self._connection.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    # The owner's commands (ConnectionHandler)

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle a command of the owner."""
        if command.type == _MESSAGE:
            where = command.message.message_id
            self.on_entries([Entry(where.ledger_id, where.entry_id, where.entry_id, 0, payload)])
        elif command.type == BaseCommand.CLOSE_CONSUMER:
            connection = self._connection or self._subscribing
            if connection is not None:
                connection.remove_consumer(command.close_consumer.consumer_id)
            self.on_connection_lost()

    def on_connection_lost(self) -> None:
        """Poll bookies soon, and subscribe again: the owner has gone, or the topic has moved."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._stopped(connection)
            self._poll_bookies_soon()
            self._ownerless = self._lacks_connection()
            self._retry_later()

    def on_silent(self) -> None:
        """Poll bookies soon, and subscribe again later: the owner does not answer."""
        if self._connection is not None:
            self._end_pushes()
            self._poll_bookies_soon()
            self._retry_later()

    def _poll_bookies_soon(self) -> None:
        """Poll bookies, after many other topics that the owner does not push any more either."""
        now = self._loop.time()
        delay = self._links.poll_delay(now)
        if delay and self._waiting is None:
            self._waiting = self._loop.call_at(now + delay, self._poll_bookies)
        else:
            self._poll_bookies()

    def on_entries(self, entries: list[Entry]) -> None:
        """Put entries that have arrived together into the log, and give the owner permits for more.

        This is hot: most of its cost is Python's. So a splice delivers most entries of topics with one reader.
        """
        if self._connection is None:
            return  # they were under way when the consumer was closed; bookies have them
        splice = self._splice
        if splice is not None:
            if splice.running:
                splice.end()
        elif self._fanout is not None and self._splicing is not None:
            splice = self._splice = TailSplice(self._log, self._fanout, self._splicing, self)
        pushed = [TopicEntry(entry) for entry in entries]
        now, first, last, count = self._loop.time(), pushed[0], pushed[-1], len(pushed)
        ledger_id, entry_id = position = last.position
        if (first.ledger_id, first.entry_id) != self._next or (
            count > 1 and (first.ledger_id != ledger_id or entry_id - first.entry_id != count - 1)
        ):
            self._note_gaps(pushed)
        self._next = (ledger_id, entry_id + 1)
        self._transactions.on_pushed(pushed)  # first, so that the entries wait for no other answer
        compares = self._compares
        self._log.push(pushed, now, at_once=splice is not None and splice.wanted and not compares)
        if compares:
            self._check_after(now)
        self._unacked = position
        if self._ack_timer is None:
            self._ack_timer = self._loop.call_at(now + ACK_S, self._ack_due)
        messages, size = (last.messages, last.size) if count == 1 else summarize(pushed)[:2]
        budget = self._budget or self._spent()
        budget.on_delivered(messages, size)
        if budget.bytes_left < 0:
            self._read_bookies()
        elif budget.permits <= self._rate.window // 2:
            self._give_permits(now)
        if splice is None or compares:
            return
        if splice.skip:
            splice.skip -= 1
        elif self._connection is not None:
            spare = budget.permits - self._rate.window // 2 - 1
            splice.begin(self._connection, self._consumer_id, position, spare, budget.bytes_left)

    __call__ = on_entries  # smaller than a bound method, of which each topic would have one

    def on_spliced(self, last: Position, messages: int, size: int) -> None:
        """As PushedTail."""
        self._next = (last.ledger_id, last.entry_id + 1)
        self._unacked = last
        self._spent().on_delivered(messages, size)

    def _note_gaps(self, entries: list[TopicEntry]) -> None:
        """Record whether the owner left out entries: markers, or messages of aborted transactions."""
        expected = self._next
        for entry in entries:
            position = entry.position
            if position != expected:
                before = self._log.limit
                self._gaps = self._gaps or (before is not None and position > self._log.chain.after(before))
            expected = (position.ledger_id, position.entry_id + 1)

    def _give_permits(self, now: float) -> None:
        """Fill the owner's window of permits; if the budget has not as many, read bookies."""
        self._apply_bound()
        budget = self._spent()
        wanted = self._rate.window - budget.permits
        if wanted <= 0:
            return  # the window is smaller than before
        permits = budget.take(wanted, now)
        if not permits:
            self._read_bookies()
            return
        self._ack()
        self._flow(permits)

    def _ack(self) -> None:
        """Move the cursor, so that the owner's statistics show no backlog."""
        if self._splice is not None and self._splice.running:
            if self._splice.lags:
                self._splice.flush()
            else:
                self._splice.end()  # nothing has come for a while: the next entry starts the timer again
        if self._connection is not None and self._unacked is not None:
            ack = CommandAck(consumer_id=self._consumer_id, ack_type=CommandAck.Cumulative)
            ack.message_id.add(ledger_id=self._unacked[0], entry_id=self._unacked[1])
            self._connection.send(BaseCommand(type=BaseCommand.ACK, ack=ack))
        self._unacked = None

    @ends("close")
    def _ack_due(self) -> None:
        self._ack_timer = None
        self._ack()
        if self._splice is not None and self._splice.running:
            self._ack_timer = self._loop.call_later(ACK_S, self._ack_due)

    # A topic at rest

    @property
    def _compares(self) -> bool:
        """Whether the topic may have entries that the owner does not push."""
        return self._gaps or self._links.guarding()

    def _check_after(self, now: float) -> None:
        """Compare the log with bookies some time after an entry, or the start of the pushes, if that is necessary."""
        if self._compares:
            if self._checks is None:
                self._checks = IdleChecks(now)
            self._checks.pushed(now)
            self._check_later()

    def _check_later(self) -> None:
        if self._check_timer is None and self._checks is not None and self._compares:
            due = self._checks.next(endless=self._links.guarding())
            if due is not None:
                self._check_timer = self._loop.call_at(due, self._check)

    @ends("close")
    def _check(self) -> None:
        """If nothing was pushed for a while: compare the log with bookies, which are not polled."""
        self._check_timer = None
        if self._connection is None or self._checks is None:
            return
        now = self._loop.time()
        due = self._checks.next(endless=self._links.guarding())
        if due is not None and due <= now:
            self._checks.checked(now)
            if self._checking is None:
                self._checking = self._loop.create_task(self._read_lac())
                self._checking.add_done_callback(self._checked)
        self._check_later()

    async def _read_lac(self) -> None:
        try:
            await self._log.refresh()
        except BookKeeperError as error:
            log.info("LAC of a pushed topic unknown: topic=%s error=%s", self._log.topic, error)

    @ends("close")
    def _checked(self, task: asyncio.Task[None]) -> None:
        self._checking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("comparison with bookies failed: topic=%s", self._log.topic, exc_info=error)

    # Changes of the source

    def _read_bookies(self) -> None:
        """End the pushes: the budget is exhausted."""
        self._unsubscribe()
        self._counted = self._log.limit or EARLIEST
        schedule = self._schedule or SourceSchedule(self._rate)
        if self._pushed_at is not None:
            schedule.pushed(self._pushed_at)
        self._schedule = schedule
        self._later(schedule.exhausted(self._loop.time()), self._reevaluate_push)

    @ends("close")
    def _reevaluate_push(self) -> None:
        """Let the owner push again if messages are few."""
        self._timer = None
        self._apply_bound()
        limit = self._log.limit or EARLIEST
        batch = self._log.latest_batch
        per_entry = 1.0 if batch is None else batch.messages / len(batch)
        messages = max(self._log.chain.distance(self._counted, limit), 0) * per_entry
        self._counted = limit
        if self._schedule is None or self._schedule.may_push(messages, self._loop.time()):
            self._begin()
        else:
            self._later(RETURN_S[0], self._reevaluate_push)

    def _unsubscribe(self) -> None:
        """End the pushes, and poll bookies."""
        if self._connection is not None:
            self._end_pushes()
            self._poll_bookies()

    def _end_pushes(self) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        self._close_consumer(connection, self._consumer_id)
        self._stopped(connection)

    def _changed(self) -> None:
        self.changes += 1
        self._links.count_tail_change()

    def _stopped(self, connection: OwnerConnection) -> None:
        if self._splice is not None:
            self._splice.end()
        for timer in (self._check_timer, self._ack_timer):
            if timer is not None:
                timer.cancel()
        self._check_timer = self._ack_timer = self._unacked = None
        self._probes.remove(self, connection)
        self._changed()
        if self._budget is not None:
            self._budget.end()
        self._log.push_ended()

    @staticmethod
    def _close_consumer(connection: OwnerConnection, consumer_id: int) -> None:
        connection.remove_consumer(consumer_id)
        if not connection.closed:
            close = BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=CommandCloseConsumer())
            close.close_consumer.consumer_id = consumer_id
            connection.send_request(close, lambda _: None)
