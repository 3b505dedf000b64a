"""An OwnerConsumer on its connection: subscribing, requests and closing."""

import asyncio

import pytest
from readonly_engine.owner import subscribe_throttle as waves
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandFlow, CommandSeek, CommandSubscribe, CommandSuccess

from tests.unit.engine.owner.played_owner import (
    Events,
    Owner,
    answered,
    closed_by_owner,
    moved,
    owner_url,
    settle,
    subscribe,
    subscribed,
)


@pytest.mark.parametrize("asks", [False, True], ids=["alone", "with another request"])
async def test_a_close_during_seek_ends_the_consumer(golden, asks):
    _, owner, consumer, events, _ = await subscribed(golden)
    seek = asyncio.create_task(moved(consumer, BaseCommand(type=BaseCommand.SEEK, seek=CommandSeek())))
    state = asyncio.create_task(consumer.state()) if asks else None
    await settle()
    (name, seeking), *others = owner.next()
    assert (name, seeking.consumer_id) == ("SEEK", 1)
    for _, asking in others:
        owner.answer("broker_get_last_message_id_response", asking.request_id)
        await state
    owner.say(closed_by_owner(golden))
    owner.answer("broker_success", seeking.request_id)
    assert (await seek).type == BaseCommand.SUCCESS
    assert len(events.ended) == 1
    assert await answered(owner) == []


async def subscribing(golden):
    """Return an owner that was looked up, a consumer, its SUBSCRIBE and the task that waits for the answer."""
    owners = OwnerDirectory(owner_url(golden))
    owner = Owner(owners, golden)
    owner.next()
    consumer = OwnerConsumer(owners, Identity(), subscribe(), Events(), zero_permit=True)
    task = asyncio.create_task(consumer.subscribe())
    await settle()
    (lookup,) = [body for name, body in owner.next() if name == "LOOKUP"]
    owner.answer("broker_lookup_response", lookup.request_id)
    await settle()
    ((name, asked),) = owner.next()
    assert name == "SUBSCRIBE"
    return owner, consumer, asked, task


async def test_a_refused_subscribe_raises_the_owners_error(golden):
    owner, consumer, asked, task = await subscribing(golden)
    owner.answer("broker_error", asked.request_id)
    with pytest.raises(OwnerRefusedError, match="Exclusive consumer is already connected") as refused:
        await task
    assert refused.value.code == 5  # ConsumerBusy
    assert not consumer.subscribed


async def test_a_passthrough_consumer_sends_flow_and_ends_with_its_connection(golden):
    _, owner, consumer, events, _ = await subscribed(golden, zero_permit=False)
    consumer.send(BaseCommand(type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=77, message_permits=10)))
    ((name, body),) = owner.next()
    assert (name, body.consumer_id, body.message_permits) == ("FLOW", 1, 10)
    owner.lose()
    await settle()
    assert len(events.ended) == 1


@pytest.mark.parametrize("answers", [False, True], ids=["before the answer", "at the answer"])
async def test_a_cancelled_subscribe_closes_the_consumer_on_the_owner(golden, answers):
    owner, _, asked, task = await subscribing(golden)
    if answers:
        owner.answer("broker_success", asked.request_id)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(name, body.consumer_id) for name, body in owner.next()] == [("CLOSE_CONSUMER", asked.consumer_id)]


async def test_a_late_answer_is_dropped(golden):
    _, owner, consumer, events, _ = await subscribed(golden)
    task = asyncio.create_task(consumer.state())
    await settle()
    ((_, body),) = owner.next()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    owner.answer("broker_get_last_message_id_response", body.request_id)
    owner.say(BaseCommand(type=BaseCommand.SUCCESS, success=CommandSuccess(request_id=body.request_id)))
    assert events.said == []


async def test_subscribes_of_a_crowd_are_throttled(golden, monkeypatch):
    monkeypatch.setattr(waves, "LIMITS", (10, 10))
    owners = OwnerDirectory(owner_url(golden))
    owner = Owner(owners, golden)
    subscribe = BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=CommandSubscribe(topic="t"))
    asked = [asyncio.ensure_future(owner.connection.subscribe(subscribe)) for _ in range(17)]
    await settle()
    first = [body.request_id for kind, body in owner.next() if kind == "SUBSCRIBE"]
    assert len(first) == 10
    for request_id in first[:4]:
        owner.answer("broker_success", request_id)
    await settle()
    assert not owner.next()
    asked[12].cancel()  # one that waits
    asked[9].cancel()  # one that the owner has
    await settle()
    assert [kind for kind, _ in owner.next()] == ["SUBSCRIBE"] * 5
    owner.lose()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    cancelled = [number for number, one in enumerate(ended) if isinstance(one, asyncio.CancelledError)]
    assert cancelled == [9, 12]
    assert sum(isinstance(one, BaseCommand) for one in ended) == 4
    assert sum(isinstance(one, OwnerUnavailableError) for one in ended) == 11
