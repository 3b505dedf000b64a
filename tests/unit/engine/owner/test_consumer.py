"""An OwnerConsumer on its connection: subscribing, requests and closing."""

from __future__ import annotations

import asyncio

import pytest
from readonly_engine.owner import subscribe_throttle as waves
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandFlow,
    CommandSeek,
    CommandSubscribe,
    CommandSuccess,
)

from tests.unit.engine.owner.played_owner import (
    ANSWERS,
    Events,
    Owner,
    answered,
    moved,
    owner_url,
    play,
    settle,
    subscribe,
)


def test_a_close_during_seek_ends_the_consumer(golden):
    async def scene(owners, owner, consumer, events, asked):
        seek = BaseCommand(type=BaseCommand.SEEK, seek=CommandSeek())
        task = asyncio.create_task(moved(consumer, seek))
        await settle()
        ((name, body),) = owner.next()
        assert (name, body.consumer_id) == ("SEEK", 1)
        command, _ = decode_command(golden("broker_close_consumer")[4:])
        command.close_consumer.consumer_id = 1
        owner.say(command)
        owner.answer("broker_success", body.request_id)
        assert (await task).type == BaseCommand.SUCCESS
        assert len(events.ended) == 1
        assert await answered(owner) == []

    play(golden, scene)


def test_a_request_during_seek_does_not_change_the_meaning_of_the_close(golden):
    async def scene(owners, owner, consumer, events, asked):
        seek = asyncio.create_task(moved(consumer, BaseCommand(type=BaseCommand.SEEK, seek=CommandSeek())))
        state = asyncio.create_task(consumer.state())
        await settle()
        (_, seeking), (_, asking) = owner.next()
        owner.answer("broker_get_last_message_id_response", asking.request_id)
        await state
        command, _ = decode_command(golden("broker_close_consumer")[4:])
        command.close_consumer.consumer_id = 1
        owner.say(command)
        owner.answer("broker_success", seeking.request_id)
        await seek
        assert len(events.ended) == 1
        assert await answered(owner) == []

    play(golden, scene)


def test_a_refused_subscribe_raises_the_owners_error(golden):
    async def run():
        owners = OwnerDirectory(owner_url(golden))
        owner = Owner(owners, golden)
        owner.next()
        consumer = OwnerConsumer(owners, Identity(), subscribe(), Events(), zero_permit=True)
        task = asyncio.create_task(consumer.subscribe())
        for _ in range(5):
            await settle()
            for name, body in owner.next():
                owner.answer("broker_error" if name == "SUBSCRIBE" else ANSWERS[name], body.request_id)
        with pytest.raises(OwnerRefusedError, match="Exclusive consumer is already connected") as refused:
            await task
        assert refused.value.code == 5  # ConsumerBusy
        assert not consumer.subscribed

    asyncio.run(run())


def test_a_passthrough_consumer_sends_flow_and_ends_with_its_connection(golden):
    async def scene(owners, owner, consumer, events, asked):
        consumer.send(BaseCommand(type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=77, message_permits=10)))
        ((name, body),) = owner.next()
        assert (name, body.consumer_id, body.message_permits) == ("FLOW", 1, 10)
        owner.lose()
        await settle()
        assert len(events.ended) == 1

    play(golden, scene, zero_permit=False)


def test_a_cancelled_subscribe_closes_the_consumer_on_the_owner(golden):
    async def run():
        owners = OwnerDirectory(owner_url(golden))
        owner = Owner(owners, golden)
        owner.next()
        consumer = OwnerConsumer(owners, Identity(), subscribe(), Events(), zero_permit=True)
        task = asyncio.create_task(consumer.subscribe())
        await settle()
        ((_, lookup),) = [entry for entry in owner.next() if entry[0] == "LOOKUP"]
        owner.answer("broker_lookup_response", lookup.request_id)
        await settle()
        assert [name for name, _ in owner.next()] == ["SUBSCRIBE"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ((name, body),) = owner.next()
        assert (name, body.consumer_id) == ("CLOSE_CONSUMER", 1)

    asyncio.run(run())


def test_a_subscribe_cancelled_at_its_answer_closes_the_consumer_on_the_owner(golden):
    async def run():
        owners = OwnerDirectory(owner_url(golden))
        owner = Owner(owners, golden)
        owner.next()
        consumer = OwnerConsumer(owners, Identity(), subscribe(), Events(), zero_permit=True)
        task = asyncio.create_task(consumer.subscribe())
        await settle()
        (lookup,) = [body for name, body in owner.next() if name == "LOOKUP"]
        owner.answer("broker_lookup_response", lookup.request_id)
        await settle()
        (asked,) = [body for name, body in owner.next() if name == "SUBSCRIBE"]
        owner.answer("broker_success", asked.request_id)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [(name, body.consumer_id) for name, body in owner.next()] == [("CLOSE_CONSUMER", asked.consumer_id)]

    asyncio.run(run())


def test_a_late_answer_is_dropped(golden):
    async def scene(owners, owner, consumer, events, asked):
        task = asyncio.create_task(consumer.state())
        await settle()
        ((_, body),) = owner.next()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        owner.answer("broker_get_last_message_id_response", body.request_id)
        owner.say(BaseCommand(type=BaseCommand.SUCCESS, success=CommandSuccess(request_id=body.request_id)))
        assert events.said == []

    play(golden, scene)


def test_subscribes_of_a_crowd_are_throttled(golden, monkeypatch):
    monkeypatch.setattr(waves, "LIMITS", (10, 10))

    async def scene():
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

    asyncio.run(scene())
