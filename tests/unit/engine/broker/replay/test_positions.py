"""Places in a topic of a replay: where subscriptions begin, what seeks reach, and the last message."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from readonly_engine.broker.replay.positions import ReplayPositions
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

from tests.unit.engine.topic.replay.test_log import BEGIN, STARTED, TOPIC, Scene, played

LATEST = Position(2**63 - 1, 2**63 - 1)


@asynccontextmanager
async def positions(*, topic_created=0, ledger_created=None, now_ms=150, **ledgers):
    async with played() as scene:
        scene.now = STARTED + now_ms
        scene.topic(**(ledgers or {"l3": [-500, -1, 0, 100, 400], "l5": [300, 900]}))

        @asynccontextmanager
        async def open_log(topic):
            assert topic == TOPIC
            await scene.log.opened()
            yield scene.log

        async def ledger_created_ms(_):
            return ledger_created

        async def stored_topic(_):
            return SimpleNamespace(created_ms=topic_created)

        cluster = SimpleNamespace(ledger_created_ms=ledger_created_ms, stored_topic=stored_topic)
        yield ReplayPositions(cluster, open_log, scene.replay)


def subscribe(initial=CommandSubscribe.Latest, start=None, batch_index=-1, rollback=0):
    made = CommandSubscribe(initial_position=initial, start_message_rollback_duration_sec=rollback)
    if start is not None:
        made.start_message_id.ledger_id, made.start_message_id.entry_id = start
        made.start_message_id.batch_index = batch_index
    return made


@pytest.mark.parametrize(
    ("asked", "mark_delete"),
    [
        (subscribe(CommandSubscribe.Earliest), (3, 1)),
        (subscribe(), (3, 3)),
        (subscribe(start=EARLIEST), (3, 1)),
        (subscribe(start=LATEST), (3, 3)),
        (subscribe(start=(3, 3)), (3, 2)),
        (subscribe(start=(3, 3), batch_index=4), (3, 1)),
        (subscribe(start=(3, 0)), (3, 1)),
        (subscribe(start=(5, 1)), (3, 3)),
        (subscribe(rollback=1), (3, 1)),
    ],
)
async def test_a_subscription_begins_within_the_replay_and_up_to_its_clock(asked, mark_delete):
    async with positions() as made:
        assert await made.start_of(TOPIC, asked) == mark_delete


@pytest.mark.parametrize(
    ("position", "mark_delete"),
    [(EARLIEST, (3, 1)), ((3, 0), (3, 1)), ((3, 3), (3, 2)), ((5, 0), (3, 3)), (LATEST, (3, 3))],
)
async def test_a_seek_stays_within_the_replay(position, mark_delete):
    async with positions() as made:
        assert await made.begin_at(TOPIC, Position(*position)) == mark_delete


async def test_a_seek_by_time_finds_the_first_released_message_of_that_time_or_later():
    async with positions(now_ms=5000) as made:
        found = [await made.at_time(TOPIC, BEGIN + time) for time in (-900, 0, 1, 450, 5000)]
    assert found == [(3, 2), (3, 2), (3, 3), (5, 1), (5, 2)]


@pytest.mark.parametrize(("now_ms", "expected"), [(0, (3, 2)), (150, (3, 3)), (9000, (5, 1))])
async def test_the_last_message_is_the_last_released_one(now_ms, expected):
    async with positions(now_ms=now_ms) as made:
        last = (await made.last(TOPIC)).get_last_message_id_response.last_message_id
    assert ((last.ledger_id, last.entry_id), last.batch_index, last.partition) == (expected, -1, TOPIC.partition)


async def test_without_a_released_message_of_the_replay_there_is_no_last_one():
    async with positions(now_ms=10, l3=[-500, -1, 100]) as made:
        last = (await made.last(TOPIC)).get_last_message_id_response.last_message_id
    assert (last.ledger_id, last.entry_id) == EARLIEST


@pytest.mark.parametrize(
    ("known", "ledgers"),
    [
        ({}, {"l3": [-5, 10]}),
        ({"ledger_created": BEGIN}, {"l3": [10]}),
        ({"topic_created": BEGIN}, {"l3": [10]}),
        ({"topic_created": BEGIN - 1, "ledger_created": BEGIN - 1}, {"l3": []}),
    ],
)
async def test_a_topic_that_goes_back_to_the_begin_is_served(known, ledgers):
    async with positions(**known, **ledgers) as made:
        await made.start_of(TOPIC, subscribe(CommandSubscribe.Earliest))


@pytest.mark.parametrize(
    ("ledgers", "remaining"),
    [({"l7": [60_000]}, "the first entry is of 1970-01-01T00:17:40.000Z"), ({"l7": []}, "it has no entries")],
)
@pytest.mark.parametrize("ledger_created", [None, BEGIN + 1])
async def test_a_topic_whose_begin_is_trimmed_is_refused_with_the_first_time_that_is_there(
    ledgers, remaining, ledger_created
):
    async with positions(topic_created=BEGIN - 1, ledger_created=ledger_created, **ledgers) as made:
        with pytest.raises(OwnerRefusedError, match=remaining) as error:
            await made.start_of(TOPIC, subscribe())
    assert error.value.code == ServerError.NotAllowedError
    assert "does not go back to 1970-01-01T00:16:40.000Z, the begin of the replay" in str(error.value)


async def test_a_topic_that_does_not_exist_is_refused():
    scene = Scene()
    try:
        scene.store.fire(TOPIC.managed_ledger_path, None)

        @asynccontextmanager
        async def open_log(_):
            yield scene.log

        made = ReplayPositions(SimpleNamespace(), open_log, scene.replay)
        with pytest.raises(OwnerRefusedError, match="does not exist, and a replay creates none") as error:
            await made.start_of(TOPIC, subscribe())
        assert error.value.code == ServerError.TopicNotFound
    finally:
        scene.log.close()
