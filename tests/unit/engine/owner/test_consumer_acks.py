"""Acks of an OwnerConsumer: order, answers, repetition after a return, and acks that may be lost."""

import asyncio

import pytest
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.grouped_acks import GroupedAckSender
from readonly_engine.owner.identity import Identity
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandAckResponse

from tests.unit.engine.owner.played_owner import (
    Events,
    Owner,
    ack,
    answered,
    consumer_closed,
    plain,
    subscribe,
    subscribed,
)


async def test_the_answer_to_an_ack_gets_the_clients_request_id(golden):
    _, owner, consumer, events, _ = await subscribed(golden)
    consumer.ack(ack(3, request_id=900))
    ((name, relayed),) = owner.next()
    assert (name, relayed.consumer_id, relayed.message_id[0].entry_id) == ("ACK", 1, 3)
    assert relayed.request_id != 900
    assert len(list(consumer.unanswered)) == 1
    receipt = consumer.ack_receipt()
    consumer.ack(ack(4))
    assert not receipt()
    response = CommandAckResponse(consumer_id=1, request_id=relayed.request_id)
    owner.say(BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=response))
    assert [said.ack_response.request_id for said in events.said] == [900]
    assert receipt()
    later = consumer.ack_receipt()
    assert not later()
    owner.next()
    await consumer_closed(owner, consumer)
    assert later(), "the owner has taken its acks before its close"
    assert consumer.ack_receipt() is None
    await asyncio.wait_for(consumer.wait_for_acks(), 30)


async def test_acks_without_an_owner_wait_and_unanswered_acks_are_sent_again(golden):
    owners, owner, consumer, events, asked = await subscribed(golden)
    consumer.ack(ack(1))
    owner.next()
    owner.lose()
    assert not consumer.subscribed
    consumer.ack(ack(2))
    with pytest.raises(OwnerUnavailableError):
        await consumer.state()
    moved = Owner(owners, golden)
    moved.next()
    asked = await answered(moved)
    assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID", "ACK", "ACK"]
    assert [body.message_id[0].entry_id for name, body in asked if name == "ACK"] == [1, 2]
    assert len(events.back) == 1
    assert isinstance(events.back[0], OwnerCursorState)
    assert len(list(consumer.unanswered)) == 2, "until the owner has answered"
    await consumer_closed(moved, consumer)


async def test_grouped_acks_are_sent_before_the_consumers_other_commands(golden):
    _, owner, consumer, _, _ = await subscribed(golden)
    acks = GroupedAckSender()
    consumer.share_acks(acks)
    acks.add(consumer, plain(3), 1)
    assert owner.next() == []
    consumer.ack(ack(4, request_id=900))
    told = owner.next()
    assert [(name, body.message_id[0].entry_id) for name, body in told] == [("ACK", 3), ("ACK", 4)]
    acks.add(consumer, plain(5), 1)
    state = asyncio.create_task(consumer.state())
    assert [name for name, _ in await answered(owner, state)] == ["ACK", "GET_LAST_MESSAGE_ID"]
    acks.add(consumer, plain(6), 1)
    closing = asyncio.create_task(consumer.close())
    assert [name for name, _ in await answered(owner, closing)] == ["ACK", "CLOSE_CONSUMER"]


async def test_unanswered_grouped_acks_of_a_closed_consumer_go_through_another(golden):
    owners, owner, consumer, _, _ = await subscribed(golden)
    acks = GroupedAckSender()
    consumer.share_acks(acks)
    second = OwnerConsumer(owners, Identity(), subscribe(), Events(), zero_permit=True)
    task = asyncio.create_task(second.subscribe())
    await answered(owner, task)
    second.share_acks(acks)
    acks.add(consumer, plain(3), 1)
    acks.flush_all()
    assert [name for name, _ in owner.next()] == ["ACK"]
    closing = asyncio.create_task(consumer.close())
    await answered(owner, closing)  # CLOSE_CONSUMER, but not the ack
    for _ in range(100):
        await asyncio.sleep(0.01)
        if sent := owner.next():
            break
    ((name, again),) = sent
    assert (name, again.consumer_id, again.message_id[0].entry_id) == ("ACK", 2, 3)
    response = CommandAckResponse(consumer_id=2, request_id=again.request_id)
    owner.say(BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=response))
    await asyncio.wait_for(second.wait_for_acks(), 5)


async def test_grouped_acks_are_sent_again_after_the_owners_state(golden):
    owners, owner, consumer, _, asked = await subscribed(golden)
    acks = GroupedAckSender()
    consumer.share_acks(acks)
    acks.add(consumer, plain(3), 1)
    acks.flush_all()
    owner.next()
    owner.lose()
    acks.add(consumer, plain(4), 1)
    back = Owner(owners, golden)
    back.next()
    asked = await answered(back)
    assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID", "ACK"]
    assert sorted(one.entry_id for one in asked[3][1].message_id) == [3, 4]
    assert len(acks.unanswered.message_id) == 2
    await consumer_closed(back, consumer)


async def test_acks_wait_for_resume_acks(golden):
    owners, owner, consumer, events, asked = await subscribed(golden)
    events.consumer = None  # nobody says that it may go on
    acks = GroupedAckSender()
    consumer.share_acks(acks)
    consumer.ack(ack(1))
    acks.add(consumer, plain(3), 1)
    owner.next()
    owner.lose()
    assert consumer.lost_at is not None
    back = Owner(owners, golden)
    back.next()
    consumer.ack_entries(plain(2))
    asked = await answered(back)
    assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID"]
    assert len(events.back) == 1
    consumer.resume_acks()
    assert [(name, body.message_id[0].entry_id) for name, body in back.next()] == [("ACK", n) for n in (1, 2, 3)]
    assert (consumer.lost_at, consumer.closed_by_owner) == (None, False)
    await consumer_closed(back, consumer)


async def test_acks_answered_shortly_before_a_broken_connection_are_possibly_lost(golden):
    _, owner, consumer, _, _ = await subscribed(golden)
    cumulative = CommandAck(ack_type=CommandAck.Cumulative, consumer_id=77, request_id=900)
    cumulative.message_id.add(ledger_id=1, entry_id=9)
    for one in (ack(3), cumulative):
        consumer.ack(one)
    consumer.ack_entries(plain(12))
    for _, relayed in owner.next():
        response = CommandAckResponse(consumer_id=1, request_id=relayed.request_id)
        owner.say(BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=response))
    assert list(consumer.possibly_lost) == [], "the connection has not broken"
    assert consumer.confirmed_up_to == (1, 9)
    owner.lose()
    lost = list(consumer.possibly_lost)
    assert [(before, one.message_id[0].entry_id) for before, one in lost] == [(None, 3), (None, 9), (None, 12)]
    assert not any(one.HasField("request_id") for _, one in lost), "the client has its receipts"
    assert [one.ack_type for _, one in lost] == [
        CommandAck.Individual,
        CommandAck.Cumulative,
        CommandAck.Individual,
    ]
    await consumer.close()


class Gate:
    """An owner that counts entries up to one."""

    def __init__(self, last):
        self.last = last
        self.waiting = []

    def counts(self, position):
        return position <= self.last

    def call_when_counted(self, position, call):
        self.waiting.append((position, call))


async def test_an_ack_with_a_request_id_waits_until_the_owner_counts_its_last_entry(golden):
    _, owner, consumer, _, _ = await subscribed(golden)
    gate = Gate(Position(1, 4))
    consumer.hold_early_acks(gate)
    consumer.ack(ack(4, request_id=900))
    consumer.ack(ack(5))
    assert [one.message_id[0].entry_id for _, one in owner.next()] == [4, 5], "nobody trusts the answer to the second"
    consumer.ack(ack(6, request_id=901))
    assert owner.next() == []
    assert [position for position, _ in gate.waiting] == [Position(1, 6)]
    assert len(list(consumer.unanswered)) == 3
    gate.waiting[0][1]()
    gate.waiting[0][1]()
    assert [one.message_id[0].entry_id for _, one in owner.next()] == [6], "once"


async def test_waiting_acks_are_sent_before_the_close_of_the_consumer(golden):
    _, owner, consumer, _, _ = await subscribed(golden)
    gate = Gate(Position(1, 4))
    consumer.hold_early_acks(gate)
    consumer.ack(ack(6, request_id=901))
    closing = asyncio.ensure_future(consumer.close())
    await asyncio.sleep(0)
    assert [name for name, _ in owner.next()] == ["ACK", "CLOSE_CONSUMER"]
    gate.waiting[0][1]()
    assert owner.next() == []
    closing.cancel()
