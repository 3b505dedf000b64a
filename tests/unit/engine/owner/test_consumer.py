"""An OwnerConsumer on its connection: its requests, its acks, and its return after an unload or a broken connection."""

import asyncio

import pytest
from readonly_engine.owner import subscribe_throttle as waves
from readonly_engine.owner.consumer import BACKOFF_S, OwnerConsumer
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.grouped_acks import GroupedAckSender
from readonly_engine.owner.identity import Identity
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import decode_command, encode_command
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandSeek,
    CommandSubscribe,
    CommandSuccess,
)

from tests.unit.engine.owner.played_owner import (
    ANSWERS,
    LATEST,
    Events,
    Owner,
    ack,
    answered,
    closed_by_owner,
    consumer_closed,
    moved,
    owner_url,
    plain,
    question,
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
    """Return an owner that was looked up, a consumer, its events, its SUBSCRIBE and the task that waits for the answer."""
    owners = OwnerDirectory(owner_url(golden))
    owner, events = Owner(owners, golden), Events()
    owner.next()
    consumer = OwnerConsumer(owners, Identity(), subscribe(), events, zero_permit=True)
    task = asyncio.create_task(consumer.subscribe())
    await settle()
    (lookup,) = [body for name, body in owner.next() if name == "LOOKUP"]
    owner.answer("broker_lookup_response", lookup.request_id)
    await settle()
    ((name, asked),) = owner.next()
    assert name == "SUBSCRIBE"
    return owner, consumer, events, asked, task


async def test_a_refused_subscribe_raises_the_owners_error(golden):
    owner, consumer, _, asked, task = await subscribing(golden)
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
    owner, _, _, asked, task = await subscribing(golden)
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


async def test_a_close_right_behind_success_is_noticed(golden):
    _, owner, consumer, events, asked = await subscribed(golden)
    close = closed_by_owner(golden)
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
    owner, consumer, events, asked, task = await subscribing(golden)
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
    events.consumer = None
    owner.say(closed_by_owner(golden))
    await answered(owner)
    assert (consumer.closed_by_owner, consumer.lost_at) == (True, None)
    owner.lose()
    assert (consumer.closed_by_owner, consumer.lost_at is None) == (True, False)
    await consumer.close()
