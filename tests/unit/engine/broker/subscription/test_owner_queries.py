"""Questions about cursors and topics, with the owner and the admin API played."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.dispatch.make import DispatchSettings
from readonly_engine.broker.subscription import owner_queries
from readonly_engine.broker.subscription.batch_index_acks import NOT_MARKED, LoadedBatches
from readonly_engine.broker.subscription.owner_keeper import OwnerKeeper
from readonly_engine.broker.subscription.owner_queries import OwnerQueries
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.partial_batches import FIRST_PERMITS
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.transactions import OwnerTransaction
from readonly_engine.wire.pulsar_pb2 import CommandMessage, CommandSubscribe, ServerError
from readonly_engine.wire.subscribe_info import SubscribeInfo

from tests.support.played_admin import PlayedAdmin

TOPIC = parse_topic_name("orders")
STATE = OwnerCursorState(Position(1, 9), Position(1, 9))
LIMIT = Position(1, 5)
ACKED = [(EARLIEST, Position(1, 2)), (Position(1, 3), Position(1, 4))]


def queries(*, batches=None, consumers=(), has_pending_acks=None, **answers):
    usual = {"configuration": {}, "mark_delete_and_last": STATE, "cursor": (ACKED, True)}
    return OwnerQueries(
        PlayedAdmin(**usual | answers), batches, lambda _: consumers, lambda name, _: name, has_pending_acks
    )


def transactions(answer):
    return {"transactionCoordinatorEnabled": answer}


class OwnerConsumer:
    """A consumer on its owner, which answers with STATE, an error or never."""

    def __init__(self, answer=STATE, *, subscribed=True):
        self.answer = answer
        self.subscribed = subscribed

    async def state(self):
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


SILENT = [None, OwnerRefusedError(ServerError.MetadataError, "it cannot be parsed")]


@pytest.mark.parametrize("answer", SILENT)
def test_the_admin_api_says_where_a_subscription_stands_if_the_owner_does_not(monkeypatch, answer):
    monkeypatch.setattr(owner_queries, "STATE_TIMEOUT_S", 0.0)
    assert asyncio.run(queries().state(TOPIC, "s", OwnerConsumer(answer))) == STATE


@pytest.mark.parametrize("configuration", [transactions("true"), OwnerUnavailableError("not now")])
@pytest.mark.parametrize("limit", [LIMIT, None])
def test_with_transactions_the_admin_api_says_how_far_consumers_may_read(configuration, limit):
    asked = queries(configuration=configuration, max_read_position=limit).state(TOPIC, "s", OwnerConsumer(SILENT[1]))
    if limit is None:
        with pytest.raises(OwnerUnavailableError, match="how far"):
            asyncio.run(asked)
    else:
        assert asyncio.run(asked) == (STATE.mark_delete, LIMIT)


async def test_the_first_consumer_on_the_owner_is_asked_for_the_last_message():
    away = OwnerConsumer(OwnerUnavailableError("away"), subscribed=False)
    assert [
        await queries(consumers=consumers).last_message(TOPIC)
        for consumers in ([], [away], [away, OwnerConsumer()], [OwnerConsumer(away.answer), OwnerConsumer()])
    ] == [None, None, STATE.last, None]


@pytest.mark.parametrize("name", ["max_read_position", "transaction"])
def test_an_admin_api_that_is_away_answers_nothing(name):
    asked = queries(**{name: OwnerUnavailableError("away")})
    arguments = (TOPIC,) if name == "max_read_position" else (TOPIC, (1, 2))
    assert asyncio.run(getattr(asked, name)(*arguments)) is None


@pytest.mark.parametrize(
    ("known", "last", "expected"),
    [
        (None, LIMIT, None),
        ((True, False), OwnerUnavailableError("not needed"), OwnerTransaction(True, False)),
        ((False, False), LIMIT, OwnerTransaction(False, False, LIMIT)),
        ((False, False), None, None),
    ],
)
def test_an_unknown_transaction_counts_with_the_last_entry_before_which_it_is_unknown(known, last, expected):
    asked = queries(transaction=known, last_confirmed=last)
    assert asyncio.run(asked.transaction(TOPIC, (1, 2))) == expected


@pytest.mark.parametrize(
    ("durable", "compacted", "expected"), [(True, False, ACKED), (True, True, ACKED[1:]), (False, False, [])]
)
def test_a_reader_of_the_compacted_topic_begins_before_the_owners_cursor(durable, compacted, expected):
    subscribe = CommandSubscribe(subscription="s", durable=durable, read_compacted=compacted)
    asked = OwnerKeeper(queries(), TOPIC, SubscribeInfo.of(subscribe))
    assert asyncio.run(asked.acked()) == expected


VALID = LoadedBatches(valid=True, marked=True, batches=[(Position(1, 2), 3)])
MARKED = LoadedBatches(valid=False, marked=True, batches=[])


def asked_for_batches(stored, subscribe=None, *, batch_acks=True, acks_in_transactions=False, batch=True, answers=()):
    """Return the partly acked batches of a subscription, and the permits that its consumer has sent to the owner."""

    async def load(*asked):
        assert asked == (TOPIC, "s")
        return stored

    async def has_pending_acks(*asked):
        assert asked == (TOPIC, "s")
        return acks_in_transactions

    async def begins_with_batch():
        return batch

    async def settings(*_):
        return DispatchSettings(batch_acks=batch_acks)

    async def run():
        questions = queries(batches=SimpleNamespace(load=load), has_pending_acks=has_pending_acks)
        info = SubscribeInfo.of(subscribe or CommandSubscribe(subscription="s", durable=True))
        asked = OwnerKeeper(questions, TOPIC, info)
        questions.settings = settings
        await asked.settings()
        consumer = FlowingConsumer(answers)
        batches = await asked.batches(consumer, Position(7, 9), begins_with_batch)
        assert consumer.on_message is None
        return batches, consumer.permits

    return asyncio.run(run())


class FlowingConsumer:
    """A consumer at the owner, which answers each FLOW with the next of some lists of messages."""

    def __init__(self, answers):
        self.answers = iter(answers)
        self.permits = []
        self.on_message = None

    def take_messages(self, on_message):
        self.on_message = on_message

    def send(self, command):
        self.permits.append(command.flow.message_permits)
        for message in next(self.answers, ()):
            asyncio.get_running_loop().call_soon(lambda message=message: self.on_message(message, b"?"))


def pushed(ledger, entry, ack_set=()):
    message = CommandMessage(consumer_id=1, ack_set=ack_set)
    message.message_id.ledger_id, message.message_id.entry_id = ledger, entry
    return message


@pytest.mark.parametrize(
    ("durable", "compacted", "batch_acks", "stored", "expected"),
    [
        (True, False, True, VALID, VALID.batches),
        (True, True, True, VALID, VALID.batches),
        (True, True, True, MARKED, []),
        (True, False, False, VALID, []),
        (False, False, True, VALID, []),
    ],
)
def test_batches_are_loaded_for_durable_subscriptions_of_owners_that_count_batch_acks(
    durable, compacted, batch_acks, stored, expected
):
    subscribe = CommandSubscribe(subscription="s", durable=durable, read_compacted=compacted)
    assert asked_for_batches(stored, subscribe, batch_acks=batch_acks) == (expected, [])


def test_the_owner_is_asked_for_batches_that_only_it_knows():
    answers = [[pushed(7, 3, [0b110]), pushed(7, 9)]]
    assert asked_for_batches(MARKED, answers=answers) == ([(Position(7, 3), 0b110)], [FIRST_PERMITS])
    assert asked_for_batches(NOT_MARKED, answers=answers) == ([(Position(7, 3), 0b110)], [FIRST_PERMITS])
    assert asked_for_batches(MARKED, batch=False, answers=answers) == ([(Position(7, 3), 0b110)], [FIRST_PERMITS])
    assert asked_for_batches(NOT_MARKED, batch=False, answers=answers) == ([], []), "no consumer can have acked a part"


def test_bits_of_open_transactions_are_not_taken_for_acks():
    """An owner's `ack_set` lacks the messages that are acked in an open transaction, which may be aborted."""
    assert asked_for_batches(MARKED, acks_in_transactions=True, answers=[[pushed(7, 9, [0b110])]])[0] == []


def test_a_silent_owner_delays_the_start_of_a_subscription_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(owner_queries, "FIRST_WAIT_S", 0.01)
    assert asked_for_batches(MARKED) == ([], [FIRST_PERMITS])


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, False),
        ({"subscriptions": None}, False),
        ({"subscriptions": {"other": {"consumers": [{"lastAckedTimestamp": 7}, {}]}}}, False),
        ({"subscriptions": {"s": {"consumers": [{"lastAckedTimestamp": 7}]}}}, False),
        ({"subscriptions": {"s": {"consumers": [{"lastAckedTimestamp": 0}, {}]}}}, False),
        ({"subscriptions": {"s": {"consumers": [{"lastAckedTimestamp": 0}, {"lastAckedTimestamp": 7}]}}}, True),
    ],
)
def test_the_statistics_tell_whether_other_consumers_ack(stats, expected):
    assert asyncio.run(queries(stats=stats).others_ack(TOPIC, "s")) is expected
