"""An OwnerConsumer follows its topic: unload, broken connections, and the return to the owner."""

import asyncio

import pytest
from readonly_engine.owner.consumer import BACKOFF_S, OwnerConsumer
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import decode_command, encode_command

from tests.unit.engine.owner.played_owner import (
    ANSWERS,
    LATEST,
    Events,
    Owner,
    ack,
    answered,
    closed_by_owner,
    consumer_closed,
    owner_url,
    question,
    settle,
    subscribe,
    subscribed,
)


async def test_a_close_right_behind_success_is_noticed(golden):
    _, owner, consumer, events, asked = await subscribed(golden)
    close, _ = decode_command(golden("broker_close_consumer")[4:])
    close.close_consumer.consumer_id = 1
    owner.say(close)
    await settle()
    (lookup,) = [body for name, body in owner.next() if name == "LOOKUP"]
    owner.answer("broker_lookup_response", lookup.request_id)
    await settle()
    (again,) = [body for name, body in owner.next() if name == "SUBSCRIBE"]
    success, _ = decode_command(golden("broker_success")[4:])
    success.success.request_id = again.request_id
    close.close_consumer.consumer_id = again.consumer_id
    owner.connection.data_received(encode_command(success) + encode_command(close))
    await settle()
    assert not consumer.subscribed
    consumer.ack(ack(3))
    await asyncio.sleep(BACKOFF_S[0])
    asked = [name for name, _ in await answered(owner)]
    assert asked == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID", "ACK"]
    assert (len(events.back), events.ended, events.away) == (1, [], 1)


async def test_a_connection_lost_right_behind_success_fails_subscribe(golden):
    owners = OwnerDirectory(owner_url(golden))
    owner, events = Owner(owners, golden), Events()
    owner.next()
    consumer = OwnerConsumer(owners, Identity(), subscribe(), events, zero_permit=True)
    task = asyncio.create_task(consumer.subscribe())
    await settle()
    (lookup,) = [body for name, body in owner.next() if name == "LOOKUP"]
    owner.answer("broker_lookup_response", lookup.request_id)
    await settle()
    (asked,) = [body for name, body in owner.next() if name == "SUBSCRIBE"]
    owner.answer("broker_success", asked.request_id)
    owner.lose()
    with pytest.raises(OwnerUnavailableError, match="closed the consumer right after SUBSCRIBE"):
        await task
    assert not consumer.subscribed
    assert (events.away, events.ended) == (0, [])


async def test_request_with_retry_repeats_the_request_on_the_new_owner(golden):
    _, owner, consumer, _, asked = await subscribed(golden)
    task = asyncio.create_task(consumer.request_with_retry(question()))
    await settle()
    assert [name for name, _ in owner.next()] == ["GET_LAST_MESSAGE_ID"]
    owner.say(closed_by_owner(golden))
    asked = await answered(owner, task)
    # Once for the consumer's own sake, once for the client's.
    assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID", "GET_LAST_MESSAGE_ID"]
    assert (await task).get_last_message_id_response.last_message_id.entry_id == 2


async def test_a_close_during_resubscribe_starts_the_next_attempt_at_once(golden):
    _, owner, consumer, events, _ = await subscribed(golden)
    owner.say(closed_by_owner(golden))
    for _ in range(10):
        await settle()
        for name, body in owner.next():
            if name != "GET_LAST_MESSAGE_ID":
                owner.answer(ANSWERS[name], body.request_id)
    assert consumer.subscribed
    assert events.back == []
    owner.say(closed_by_owner(golden, 2))
    async with asyncio.timeout(5):  # and not after the 30 s for which an answer is waited for
        while not events.back:
            await answered(owner)


async def test_request_with_retry_fails_for_a_consumer_that_has_ended(golden):
    _, owner, consumer, _, _ = await subscribed(golden, zero_permit=False)
    task = asyncio.create_task(consumer.request_with_retry(question()))
    await settle()
    owner.next()
    owner.say(closed_by_owner(golden))
    with pytest.raises(OwnerUnavailableError, match="GET_LAST_MESSAGE_ID"):
        await asyncio.wait_for(task, 30)


async def test_an_error_that_is_not_retriable_ends_the_consumer(golden):
    owners, owner, _, events, _ = await subscribed(golden)
    owner.lose()
    moved = Owner(owners, golden)
    moved.next()
    for _ in range(10):
        await settle()
        for name, body in moved.next():
            moved.answer("broker_error" if name == "SUBSCRIBE" else ANSWERS[name], body.request_id)
    assert events.ended == ["Exclusive consumer is already connected"]
    assert events.back == []


async def test_a_reader_resumes_behind_its_mark_delete_position(golden):
    command = subscribe()
    command.durable = False
    command.start_message_id.ledger_id = command.start_message_id.entry_id = LATEST
    owners, owner, consumer, events, asked = await subscribed(golden, command=command)
    assert asked[1][1].start_message_id.ledger_id == LATEST
    events.position = Position(12, 7)
    owner.lose()
    back = Owner(owners, golden)
    back.next()
    asked = await answered(back)
    assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID"]
    start = asked[1][1].start_message_id
    assert (start.ledger_id, start.entry_id) == (12, 8), "the owner takes a step back"
    assert consumer.resumed_at == (12, 7)
    await consumer_closed(back, consumer)


async def test_a_close_by_the_owner_sets_no_lost_at(golden):
    _, owner, consumer, events, _ = await subscribed(golden)
    command, _ = decode_command(golden("broker_close_consumer")[4:])
    command.close_consumer.consumer_id = 1
    events.consumer = None
    owner.say(command)
    await answered(owner)
    assert (consumer.closed_by_owner, consumer.lost_at) == (True, None)
    owner.lose()
    assert (consumer.closed_by_owner, consumer.lost_at is None) == (True, False)
    await consumer.close()
