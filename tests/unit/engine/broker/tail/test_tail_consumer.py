"""The subscription that brings a topic's new entries, with the owner's connection and the log played."""

import asyncio
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from readonly_engine.bookkeeper.errors import NoSuchLedgerError
from readonly_engine.broker.tail import idle_checks
from readonly_engine.broker.tail import tail_consumer as module
from readonly_engine.broker.tail.budget import ACROSS_ZONES, FEW_READERS, MANY_READERS, PushRate, TailSettings
from readonly_engine.broker.tail.owner_probes import SILENT_S, OwnerProbes
from readonly_engine.broker.tail.tail_consumer import TailConsumer
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position
from readonly_engine.topic.view import Follow
from readonly_engine.wire.commands import command_name
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandCloseConsumer,
    CommandError,
    CommandMessage,
    CommandSuccess,
    ServerError,
)

from tests.support.waiting import until

TOPIC = parse_topic_name("orders")
NAME = "pulsar-readonly-tail-demo-broker:6650"
SUCCESS = BaseCommand(type=BaseCommand.SUCCESS, success=CommandSuccess())


def error(code):
    return BaseCommand(type=BaseCommand.ERROR, error=CommandError(error=code, message="no"))


class Connection:
    """A connection to the owner, which answers SUBSCRIBE as it is told; None: never."""

    def __init__(self, *answers):
        self.answers, self.sent, self.subscribes, self.handlers = [*answers], [], [], {}
        self.closed = False
        self.url, self.last_answered_ping, self.pings = "pulsar://owner:6650", 0.0, 0
        self.entry_handlers = {}

    def call_with_entries(self, number, on_entries):
        self.entry_handlers[number] = on_entries

    def probe(self):
        self.pings += 1

    def add_consumer(self, handler):
        number = len(self.subscribes) + 1
        self.handlers[number] = handler
        return number

    def has_consumer(self, number):
        return number in self.handlers

    def remove_consumer(self, number):
        self.handlers.pop(number, None)
        self.entry_handlers.pop(number, None)

    async def subscribe(self, command):
        self.subscribes.append(command.subscribe)
        answer = self.answers.pop(0) if self.answers else SUCCESS
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def send(self, command):
        self.sent.append(command)

    def send_request(self, command, _on_response):
        self.sent.append(command)

    def names(self):
        return [command_name(command) for command in self.sent]

    def permits(self):
        return sum(command.flow.message_permits for command in self.sent if command.type == BaseCommand.FLOW)

    def push(self, ledger_id, *entry_ids, payload=b"x"):
        for on_entries in list(self.entry_handlers.values()):
            on_entries([Entry(ledger_id, entry_id, entry_id, 0, payload) for entry_id in entry_ids])

    def command(self, ledger_id, entry_id, payload=b"x"):
        """One that has arrived in parts, or has more than a position."""
        message = CommandMessage(consumer_id=len(self.subscribes))
        message.message_id.ledger_id, message.message_id.entry_id = ledger_id, entry_id
        command = BaseCommand(type=BaseCommand.MESSAGE, message=message)
        for handler in list(self.handlers.values()):
            handler.on_command(command, payload)

    def break_off(self):
        self.closed = True
        handlers, self.handlers = list(self.handlers.values()), {}
        for handler in handlers:
            handler.on_connection_lost()


class Log:
    """A topic's log."""

    topic = TOPIC

    def __init__(self):
        self.limit, self.latest_batch, self.polls, self.pushed = Position(3, 7), None, False, []
        self.chain = SimpleNamespace(
            distance=lambda first, last: last.entry_id - first.entry_id,
            after=lambda position: Position(position.ledger_id, position.entry_id + 1),
        )
        self.compared, self.failure = 0, None
        self.has_nearer_replicas = False
        self.followed = Follow.ENTRIES
        self.suspended = False

    async def refresh(self):
        self.compared += 1
        if self.failure is not None:
            raise self.failure

    def expect_no_push(self):
        self.polls = self.polls or not self.suspended

    def suspend_polls(self):
        assert not self.suspended
        self.polls, self.suspended = False, True

    def push_ended(self):
        assert self.suspended
        self.suspended = False

    def push(self, entries, _now, *, at_once):
        self.pushed += [entry.position for entry in entries]
        self.limit = entries[-1].position


class Links:
    def __init__(self, scene):
        self.scene = scene

    def connection(self, _):
        return self.scene.connection if self.scene.connected else None

    async def push_obstacle(self):
        if isinstance(self.scene.obstacle, Exception):
            raise self.scene.obstacle
        return self.scene.obstacle

    def count_tail_change(self):
        self.scene.changes.append(self.scene.log.polls)

    def poll_delay(self, _):
        return self.scene.poll_delay

    def guarding(self):
        return self.scene.transactions

    def subscriptions(self):
        return self.scene.readers


class Scene:
    def __init__(self, *answers, rate):
        self.connection = Connection(*answers)
        self.connected, self.obstacle, self.changes = True, "", []
        self.transactions, self.readers, self.poll_delay = False, 1, 0.0
        self.log, self.positions = Log(), []
        self.probes = OwnerProbes()
        self.tail = TailConsumer(
            self.log,
            Links(self),
            SimpleNamespace(on_pushed=lambda entries: self.positions.extend(entry.position for entry in entries)),
            self.probes,
            TailSettings(NAME, rate),
        )


@asynccontextmanager
async def played(*answers, rate=PushRate(1000.0, 2000, 1e6)):  # noqa: B008 - immutable
    made = Scene(*answers, rate=rate)
    try:
        yield made
    finally:
        made.tail.close()


@pytest.fixture
def stage():
    return played()


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", (0.001, 0.002))
    monkeypatch.setattr(module, "REFUSED_RETRY_S", 0.001)
    monkeypatch.setattr(module, "LEFT_S", 0.001)


async def test_the_owner_pushes_from_the_end_of_the_log_on(stage):
    stage.tail.start()
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    assert not stage.log.polls
    (subscribe,) = stage.connection.subscribes
    assert (subscribe.topic, subscribe.subscription, subscribe.durable) == (str(TOPIC), NAME, False)
    assert not subscribe.force_topic_creation
    start = subscribe.start_message_id
    assert (start.ledger_id, start.entry_id) == (3, 8)
    assert stage.connection.permits() == 400
    stage.connection.push(3, 8)
    stage.connection.command(3, 9)
    assert stage.log.pushed == stage.positions == [(3, 8), (3, 9)]
    assert stage.tail.delivered.messages == 2
    assert stage.tail.delivered.bytes > 0
    delivered = stage.tail.delivered
    stage.connection.break_off()
    assert not stage.tail.pushed
    assert stage.tail.delivered == delivered


@pytest.mark.parametrize("leaves", ["while pushed", "while the owner has not answered", "while policies are asked"])
async def test_the_pushes_move_to_a_consumer_that_is_still_there(leaves, stage):
    """The connection has the credentials of the client that has left."""
    departed, present, answered = stage.connection, Connection(), asyncio.Event()

    async def answer_late(command):
        departed.subscribes.append(command.subscribe)
        await answered.wait()
        return SUCCESS

    departed.subscribe = answer_late
    stage.tail.start()
    await until(lambda: departed.subscribes)
    if leaves == "while the owner has not answered":
        stage.connection = present
        stage.tail.consumer_left(departed)
    answered.set()
    if leaves != "while the owner has not answered":
        await until(lambda: stage.tail.pushed)
        departed.push(3, 8)
        stage.tail.consumer_left(None)
        stage.tail.consumer_left(present)
        stage.tail.consumer_left(departed)  # another of its consumers is still there
        await until(lambda: stage.tail._leave_timer is None)
        assert len(stage.changes) == 1
        stage.connection = present
        if leaves == "while policies are asked":
            stage.tail.policies_changed()
        stage.tail.consumer_left(departed)
    await until(lambda: present.subscribes and stage.tail.pushed)
    assert departed.names()[-1] == "CLOSE_CONSUMER"
    assert not departed.handlers, "the connection stays open"
    assert stage.changes == [False, False, True], "bookies are not polled meanwhile"
    limit = stage.log.limit
    start = present.subscribes[0].start_message_id
    assert (start.ledger_id, start.entry_id) == (limit.ledger_id, limit.entry_id + 1)
    departed.push(3, 9)
    present.push(3, 9)
    assert stage.log.pushed.count((3, 9)) == 1


async def test_a_topic_that_is_unloaded_is_subscribed_again(stage):
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    close = BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=CommandCloseConsumer(consumer_id=1))
    stage.connection.handlers[1].on_command(close, b"")
    assert stage.log.polls
    assert not stage.connection.has_consumer(1)
    await until(lambda: stage.tail.pushed)


@pytest.mark.parametrize("ends", ["the connection breaks", "the owner is silent"])
@pytest.mark.parametrize("returns", [False, True])
async def test_a_topic_of_a_lost_owner_polls_bookies_in_its_turn_unless_it_is_pushed_before(
    ends, returns, monkeypatch, stage
):
    monkeypatch.setattr(module, "PUSH_WAIT_S", 1000.0)
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    lost, stage.poll_delay = stage.connection, 1000.0 if returns else 0.05
    stage.connection = Connection(*([] if returns else [None]))
    if ends == "the owner is silent":
        stage.tail.on_silent()
    else:
        lost.break_off()
    assert (stage.log.polls, stage.log.suspended) == (False, False)
    await until(lambda: stage.log.polls or stage.tail.pushed)
    assert (stage.log.polls, stage.tail.pushed) == (not returns, returns)
    await until(lambda: stage.tail._waiting is None)


async def test_a_topic_waits_for_a_consumer_that_has_returned_to_the_owner(monkeypatch, stage):
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    monkeypatch.setattr(module, "RETRY_S", (1000.0, 1000.0))
    stage.tail._retry_s, lost = 1000.0, stage.connection
    stage.connected = False
    lost.break_off()
    stage.tail.start()
    assert stage.tail._starting is None
    stage.connection, stage.connected = Connection(), True
    stage.tail.start()
    await until(lambda: stage.tail.pushed)


async def test_many_messages_are_read_from_bookies_and_the_owner_is_spared(monkeypatch):
    monkeypatch.setattr("readonly_engine.broker.tail.budget.RETURN_S", (0.05, 0.1))
    monkeypatch.setattr(module, "RETURN_S", (0.05, 0.1))
    async with played(rate=PushRate(200.0, 20, 1e6)) as stage:
        stage.tail.start()
        await until(lambda: stage.tail.pushed)
        await until(lambda: stage.connection.push(3, stage.log.limit.entry_id + 1) or stage.log.polls)
        assert len(stage.log.pushed) >= 15  # as many as the first permits and the rate give
        assert stage.connection.names()[-1] == "CLOSE_CONSUMER"
        assert stage.connection.sent[-1].close_consumer.consumer_id == 1
        stage.log.limit = Position(3, 500)
        await until(lambda: stage.tail.pushed)
        assert stage.connection.subscribes[1].start_message_id.entry_id == 501


async def test_the_cursor_moves_with_each_grant_of_permits():
    async with played(rate=PushRate(100_000.0, 20, 1e6)) as stage:
        stage.tail.start()
        await until(lambda: stage.tail.pushed)
        await until(lambda: stage.connection.push(3, stage.log.limit.entry_id + 1) or "ACK" in stage.connection.names())
        ack = next(command.ack for command in stage.connection.sent if command.type == BaseCommand.ACK)
        assert ack.message_id[0].entry_id <= stage.log.limit.entry_id
        assert ack.ack_type == ack.Cumulative


@pytest.mark.parametrize("code", [ServerError.AuthorizationError, ServerError.NotAllowedError])
async def test_a_refusal_means_bookies_and_is_logged_once(code, caplog):
    caplog.set_level("INFO")
    async with played(*[error(code)] * 10) as stage:
        stage.tail.start()
        await until(lambda: len(stage.connection.subscribes) > 3)
        assert stage.log.polls
        assert not stage.tail.pushed
        assert len([record for record in caplog.records if "may not push" in record.message]) == 1


async def test_a_limit_of_subscriptions_is_left_to_others(caplog, stage):
    caplog.set_level("INFO")
    stage.obstacle = "maxSubscriptionsPerTopic is 2"
    stage.tail.start()
    await until(lambda: "maxSubscriptionsPerTopic is 2" in caplog.text)
    assert not stage.connection.subscribes
    stage.obstacle = OwnerUnavailableError("not now")
    await asyncio.sleep(0.01)
    assert not stage.connection.subscribes
    stage.obstacle = ""
    await until(lambda: stage.tail.pushed)


@pytest.mark.parametrize("code", [ServerError.ServiceNotReady, ServerError.ConsumerBusy])
async def test_an_owner_that_is_not_ready_is_tried_again_soon(code, caplog, monkeypatch):
    """It may still have this broker's consumer of a connection that is gone."""
    monkeypatch.setattr(module, "REFUSED_RETRY_S", 1000.0)
    caplog.set_level("INFO")
    async with played(error(code), error(code)) as stage:
        stage.tail.start()
        await until(lambda: stage.tail.pushed)
        assert len(stage.connection.subscribes) == 3
        assert stage.connection.names()[:2] == ["CLOSE_CONSUMER", "CLOSE_CONSUMER"]
        assert len([record for record in caplog.records if "trying again" in record.message]) == 1


async def test_a_topic_that_is_closed_while_the_owner_does_not_answer_leaves_nothing_there():
    async with played(None) as stage:
        stage.tail.start()
        await until(lambda: stage.connection.subscribes)
        stage.tail.close()
        await until(lambda: stage.connection.names() == ["CLOSE_CONSUMER"])
        assert not stage.connection.handlers
        assert stage.log.polls


@pytest.mark.parametrize("answers", [[None], [error(ServerError.ServiceNotReady)], [SUCCESS]])
async def test_bookies_are_polled_if_the_owner_does_not_push_soon(answers, monkeypatch):
    monkeypatch.setattr(module, "PUSH_WAIT_S", 0.01)
    monkeypatch.setattr(module, "RETRY_S", (1000.0, 1000.0))
    async with played(*answers) as stage:
        stage.tail.start()
        assert not stage.log.polls
        await until(lambda: stage.log.polls or stage.tail.pushed)
        assert stage.log.polls != stage.tail.pushed


async def test_what_was_under_way_at_the_end_of_the_pushes_is_left_to_bookies(stage):
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    handler, on_entries = stage.connection.handlers[1], stage.connection.entry_handlers[1]
    stage.tail.close()
    stage.connection.handlers[1], stage.connection.entry_handlers[1] = handler, on_entries
    stage.connection.push(3, 8)
    stage.connection.command(3, 8)
    assert not stage.log.pushed


async def test_a_consumer_that_the_owner_closes_right_after_success_does_not_end_the_polls(stage):
    subscribe = stage.connection.subscribe

    async def close_at_once(command):
        answer = await subscribe(command)
        if len(stage.connection.subscribes) == 1:
            close = CommandCloseConsumer(consumer_id=1)
            stage.connection.handlers[1].on_command(
                BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close), b""
            )
        return answer

    stage.connection.subscribe = close_at_once
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    assert len(stage.connection.subscribes) == 2
    assert stage.tail.changes == 1


@pytest.fixture
def quick_checks(monkeypatch):
    monkeypatch.setattr(idle_checks, "AFTER_S", (0.001, 0.002, 0.003))
    monkeypatch.setattr(idle_checks, "ENDLESS_S", 0.001)
    monkeypatch.setattr(module, "ACK_S", 0.001)


@pytest.mark.usefixtures("quick_checks")
async def test_a_topic_with_gaps_is_compared_with_bookies_a_few_times_when_it_rests(stage):
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    stage.connection.push(3, 8)
    await asyncio.sleep(0.01)
    assert stage.log.compared == 0, "no markers, no messages of transactions"
    stage.connection.push(3, 10)
    await until(lambda: stage.log.compared)
    await until(lambda: stage.tail._check_timer is None and stage.tail._checking is None)  # it costs nothing now
    compared = stage.log.compared
    assert compared <= 2 * len(idle_checks.AFTER_S)
    stage.log.failure = NoSuchLedgerError("gone")
    stage.connection.push(3, 11)
    await until(lambda: stage.log.compared > compared)


@pytest.mark.usefixtures("quick_checks")
async def test_on_a_cluster_with_transactions_a_topic_at_rest_is_compared_again_and_again(stage):
    stage.transactions = True
    stage.tail.start()
    await until(lambda: stage.log.compared > 10)
    stage.connection.break_off()
    stage.connected = False
    before = stage.log.compared
    await asyncio.sleep(0.01)
    assert stage.log.compared <= before + 1, "bookies are polled"


async def test_where_some_bookies_are_nearer_the_owner_pushes_little(stage):
    stage.log.has_nearer_replicas = True
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    assert stage.connection.permits() == ACROSS_ZONES.burst // 2
    began = time.monotonic()
    await until(lambda: stage.connection.push(3, stage.log.limit.entry_id + 1) or stage.log.polls)
    assert not stage.tail.pushed
    allowed = ACROSS_ZONES.burst + ACROSS_ZONES.messages * (time.monotonic() - began)
    assert stage.connection.permits() <= allowed


async def test_the_bound_follows_when_bookies_get_their_places_later():
    async with played(rate=PushRate(100_000.0, 20, 1e6)) as stage:
        stage.tail.start()
        await until(lambda: stage.tail.pushed)
        stage.connection.push(3, 8)
        assert stage.tail.pushed
        stage.log.has_nearer_replicas = True
        await until(lambda: stage.connection.push(3, stage.log.limit.entry_id + 1) or stage.log.polls)
        assert stage.connection.names()[-1] == "CLOSE_CONSUMER"
        assert stage.connection.permits() <= 20 + ACROSS_ZONES.burst


async def test_with_many_readers_the_owner_is_spared_sooner():
    async with played(rate=PushRate()) as stage:
        stage.tail.start()
        await until(lambda: stage.tail.pushed)
        assert stage.connection.permits() == PushRate().window
        stage.readers = FEW_READERS + 1
        began = time.monotonic()
        await until(lambda: stage.connection.push(3, stage.log.limit.entry_id + 1) or stage.log.polls)
        allowed = MANY_READERS.burst + MANY_READERS.messages * (time.monotonic() - began)
        assert len(stage.log.pushed) <= PushRate().window + allowed


async def test_an_owner_pushes_nothing_where_only_the_ledgers_are_followed():
    async with played(OwnerUnavailableError("away"), rate=PushRate()) as stage:
        stage.log.followed = Follow.LEDGERS
        stage.tail.start()
        assert not stage.connection.subscribes
        stage.log.followed = Follow.END
        stage.tail.followed()
        await until(lambda: stage.tail.pushed)
        assert stage.connection.permits() == min(MANY_READERS.window, MANY_READERS.burst)
        stage.log.followed = Follow.LEDGERS
        stage.tail.followed()
        assert not stage.tail.pushed
        assert stage.log.polls
        assert stage.connection.names()[-1] == "CLOSE_CONSUMER"
        stage.log.followed = Follow.ENTRIES
        stage.tail.followed()
        await until(lambda: stage.tail.pushed)


async def test_an_owner_pushes_again_where_entries_were_not_needed_during_a_look_at_the_policies(stage):
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    stage.tail.policies_changed()
    for followed in (Follow.LEDGERS, Follow.ENTRIES):
        stage.log.followed = followed
        stage.tail.followed()
    await until(lambda: stage.tail.pushed, 5)


async def test_a_subscribe_under_way_is_closed_where_only_the_ledgers_are_followed_now(stage):
    stage.tail.start()
    stage.log.followed = Follow.LEDGERS
    stage.tail.followed()
    await until(lambda: "CLOSE_CONSUMER" in stage.connection.names())
    assert not stage.tail.pushed
    assert not stage.connection.permits()


async def test_bookies_take_over_when_the_owner_is_silent(monkeypatch, stage):
    monkeypatch.setattr(module, "RETRY_S", (0.01, 0.02))
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    stage.probes.check(100.0)
    assert stage.connection.pings == 1
    stage.probes.check(100.0 + SILENT_S)
    assert not stage.tail.pushed
    assert stage.log.polls
    assert stage.connection.names()[-1] == "CLOSE_CONSUMER"
    await until(lambda: stage.tail.pushed)
    assert len(stage.connection.subscribes) == 2


async def test_policies_that_change_end_the_pushes_and_allow_them_again(monkeypatch, stage):
    monkeypatch.setattr(module, "REFUSED_RETRY_S", 3600.0)
    stage.tail.policies_changed()
    stage.tail.start()
    await until(lambda: stage.tail.pushed)
    stage.tail.policies_changed()
    stage.obstacle = "dispatchRate has dispatchThrottlingRateInMsg 10"
    stage.tail.policies_changed()
    await until(lambda: stage.log.polls)
    assert stage.connection.names()[-1] == "CLOSE_CONSUMER"
    stage.tail.policies_changed()
    stage.obstacle = OwnerUnavailableError("not now")
    await until(lambda: stage.tail._starting is None)
    stage.obstacle = ""
    stage.tail.policies_changed()
    await until(lambda: stage.tail.pushed)
    assert len(stage.connection.subscribes) == 2
