"""A OwnerConsumer on its connection to the owner, played: what the owner sends goes in, what the owner would get comes out.

The transport of the connection is a list of what was written; every answer is a real broker's, under our ids.
"""

from __future__ import annotations

import asyncio

import pytest
from readonly_engine.owner import subscribe_throttle as waves
from readonly_engine.owner.connection import OwnerConnection
from readonly_engine.owner.consumer import BACKOFF_S, OwnerConsumer, OwnerCursorState
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.grouped_acks import GroupedAckSender
from readonly_engine.owner.identity import Identity
from readonly_engine.owner.identity_session import ConnectionTarget
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandGetLastMessageId,
    CommandSeek,
    CommandSubscribe,
    CommandSuccess,
)

LATEST = (1 << 63) - 1

ANSWERS = {
    "LOOKUP": "broker_lookup_response",
    "SUBSCRIBE": "broker_success",
    "GET_LAST_MESSAGE_ID": "broker_get_last_message_id_response",
    "CLOSE_CONSUMER": "broker_success",
}


def owner_url(golden):
    """Where the golden LOOKUP_RESPONSE says that the owner is."""
    return decode_command(golden("broker_lookup_response")[4:])[0].lookup_topic_response.broker_service_url


class Written(asyncio.Transport):
    """Keeps what was written, as commands."""

    def __init__(self):
        super().__init__()
        self.splitter = FrameSplitter()
        self.commands = []

    def write(self, data):
        self.commands += [decode_command(frame)[0] for frame in self.splitter.receive_data(data)]

    def close(self):
        pass


class Owner:
    """The other end of a connection: a real broker's answers to what was written."""

    def __init__(self, owners, golden):
        self.golden = golden
        url = owner_url(golden)
        self.transport = Written()
        self.connection = OwnerConnection(url, Identity())
        self.connection.connection_made(self.transport)
        self.connection.data_received(golden("broker_connected"))
        owners.session(Identity()).adopt(ConnectionTarget(url), self.connection)
        self.seen = 0

    def next(self):
        """What was written since the last look."""
        new, self.seen = self.transport.commands[self.seen :], len(self.transport.commands)
        return [(BaseCommand.Type.Name(command.type), body_of(command)) for command in new]

    def answer(self, name, request_id, **fields):
        command, _ = decode_command(self.golden(name)[4:])
        body = body_of(command)
        body.request_id = request_id
        for field, value in fields.items():
            setattr(body, field, value)
        self.say(command)

    def say(self, command):
        self.connection.data_received(encode_command(command))

    def lose(self):
        self.connection.connection_lost(None)


class Events:
    def __init__(self):
        self.said, self.back, self.ended, self.away = [], [], [], 0
        self.consumer = self.position = None

    def on_owner_command(self, command, payload):
        self.said.append(command)

    def on_detached(self):
        self.away += 1

    def mark_delete_position(self):
        return self.position

    def on_resubscribed(self, state):
        self.back.append(state)
        if self.consumer is not None:
            self.consumer.resume_acks()

    def on_not_kept(self, reason):
        self.ended.append(reason)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def answered(owner, task=None):
    """Answer whatever the consumer asks until it has what it wants; what was asked."""
    asked = []
    for _ in range(10):
        await settle()
        for name, body in owner.next():
            asked.append((name, body))
            if name in ANSWERS:
                owner.answer(ANSWERS[name], body.request_id)
        if task is not None and task.done():
            break
    return asked


def subscribe():
    return CommandSubscribe(topic="persistent://public/default/t", subscription="s", consumer_id=77, request_id=5)


def play(golden, scene, *, zero_permit=True, command=None):
    async def run():
        owners = OwnerDirectory(owner_url(golden))
        owner, events = Owner(owners, golden), Events()
        owner.next()
        sent = command or subscribe()
        consumer = events.consumer = OwnerConsumer(owners, Identity(), sent, events, zero_permit=zero_permit)
        task = asyncio.create_task(consumer.subscribe())
        asked = await answered(owner, task)
        await task
        await scene(owners, owner, consumer, events, asked)

    asyncio.run(run())


def ack(entry_id, **fields):
    made = CommandAck(ack_type=CommandAck.Individual, consumer_id=77, **fields)
    made.message_id.add(ledger_id=1, entry_id=entry_id)
    return made


def test_it_subscribes_at_the_owner_under_an_id_of_the_connection_and_asks_for_nothing(golden):
    async def scene(owners, owner, consumer, events, asked):
        assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE"]
        relayed = asked[1][1]
        assert (relayed.subscription, relayed.consumer_id) == ("s", 1)
        assert consumer.subscribed

    play(golden, scene)


def test_two_consumers_of_one_connection_have_ids_of_their_own(golden):
    async def scene(owners, owner, consumer, events, asked):
        second = OwnerConsumer(owners, Identity(), subscribe(), Events(), zero_permit=True)
        task = asyncio.create_task(second.subscribe())
        asked = await answered(owner, task)
        await task
        assert asked[-1][1].consumer_id == 2

    play(golden, scene)


def test_the_owner_says_where_the_subscription_stands(golden):
    async def scene(owners, owner, consumer, events, asked):
        task = asyncio.create_task(consumer.state())
        await answered(owner, task)
        state = await task
        assert state.last.entry_id == 2
        assert state.mark_delete == (state.last.ledger_id, -1)

    play(golden, scene)


def test_an_ack_goes_to_the_owner_and_its_receipt_to_the_client_under_the_clients_id(golden):
    async def scene(owners, owner, consumer, events, asked):
        consumer.ack(ack(3, request_id=900))
        ((name, relayed),) = owner.next()
        assert (name, relayed.consumer_id, relayed.message_id[0].entry_id) == ("ACK", 1, 3)
        assert relayed.request_id != 900
        assert consumer.unanswered_acks == 1
        response = CommandAckResponse(consumer_id=1, request_id=relayed.request_id)
        owner.say(BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=response))
        assert [said.ack_response.request_id for said in events.said] == [900]
        assert consumer.unanswered_acks == 0
        await asyncio.wait_for(consumer.wait_for_acks(), 1)

    play(golden, scene)


def test_an_ack_that_the_client_wants_no_receipt_of_is_confirmed_all_the_same(golden):
    async def scene(owners, owner, consumer, events, asked):
        consumer.ack(ack(3))
        ((_, relayed),) = owner.next()
        owner.say(
            BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=CommandAckResponse(request_id=relayed.request_id))
        )
        assert (events.said, consumer.unanswered_acks) == ([], 0)

    play(golden, scene)


def test_acks_wait_while_the_owner_is_away_and_are_sent_again_when_it_is_back(golden):
    async def scene(owners, owner, consumer, events, asked):
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
        assert consumer.unanswered_acks == 2, "until the owner has answered"
        await consumer_closed(moved, consumer)

    play(golden, scene)


def plain(entry_id):
    return ack(entry_id).SerializeToString()[4:]  # without the consumer's id and the type


def test_acks_that_go_together_come_before_what_else_a_consumer_sends(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    play(golden, scene)


def test_acks_that_went_through_a_consumer_that_is_closed_go_through_another(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    play(golden, scene)


def test_acks_that_go_together_are_sent_again_when_the_owner_is_back_and_has_said_where_it_stands(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    play(golden, scene)


async def moved(consumer, seek):
    with consumer.expecting_close():
        return await consumer.request(seek)


async def consumer_closed(owner, consumer):
    task = asyncio.create_task(consumer.close())
    asked = await answered(owner, task)
    await task
    assert [name for name, _ in asked] == ["CLOSE_CONSUMER"]


def test_an_owner_that_unloads_the_topic_closes_the_consumer_and_it_comes_back(golden):
    async def scene(owners, owner, consumer, events, asked):
        command, _ = decode_command(golden("broker_close_consumer")[4:])
        command.close_consumer.consumer_id = 1
        owner.say(command)
        asked = await answered(owner)
        assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID"]
        assert asked[1][1].consumer_id == 2, "an id is used once"
        assert (len(events.back), events.ended) == (1, [])

    play(golden, scene)


def test_a_close_right_behind_the_owners_success_is_not_overlooked(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    play(golden, scene)


def test_a_client_is_told_when_its_consumer_was_closed_as_soon_as_it_was_there(golden):
    async def run():
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

    asyncio.run(run())


def test_a_seek_closes_the_consumer_for_good(golden):
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


def test_a_request_beside_a_seek_does_not_hide_that_the_close_belongs_to_the_seek(golden):
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


def closed_by_owner(golden, consumer_id=1):
    command, _ = decode_command(golden("broker_close_consumer")[4:])
    command.close_consumer.consumer_id = consumer_id
    return command


def question():
    return BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, get_last_message_id=CommandGetLastMessageId())


def test_a_question_that_the_topic_moves_under_is_asked_again_when_the_consumer_is_back(golden):
    async def scene(owners, owner, consumer, events, asked):
        task = asyncio.create_task(consumer.request_with_retry(question()))
        await settle()
        assert [name for name, _ in owner.next()] == ["GET_LAST_MESSAGE_ID"]
        owner.say(closed_by_owner(golden))
        asked = await answered(owner, task)
        # Once for the consumer's own sake, once for the client's.
        assert [name for name, _ in asked] == ["LOOKUP", "SUBSCRIBE", "GET_LAST_MESSAGE_ID", "GET_LAST_MESSAGE_ID"]
        assert (await task).get_last_message_id_response.last_message_id.entry_id == 2

    play(golden, scene)


def test_a_consumer_that_is_closed_while_it_comes_back_tries_again_at_once(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    play(golden, scene)


def test_a_question_of_a_consumer_that_cannot_be_kept_is_answered_with_an_error(golden):
    async def scene(owners, owner, consumer, events, asked):
        task = asyncio.create_task(consumer.request_with_retry(question()))
        await settle()
        owner.next()
        owner.say(closed_by_owner(golden))
        with pytest.raises(OwnerUnavailableError, match="GET_LAST_MESSAGE_ID"):
            await asyncio.wait_for(task, 1)

    play(golden, scene, zero_permit=False)


def test_an_ack_that_the_owner_refuses_is_answered_with_its_error(golden):
    async def scene(owners, owner, consumer, events, asked):
        consumer.ack(ack(3, request_id=900))
        ((_, relayed),) = owner.next()
        owner.answer("broker_error", relayed.request_id)
        ((said),) = events.said
        assert (said.type, said.error.request_id) == (BaseCommand.ERROR, 900)

    play(golden, scene)


def test_a_refusal_that_trying_again_does_not_mend_ends_the_consumer(golden):
    async def scene(owners, owner, consumer, events, asked):
        owner.lose()
        moved = Owner(owners, golden)
        moved.next()
        for _ in range(10):
            await settle()
            for name, body in moved.next():
                moved.answer("broker_error" if name == "SUBSCRIBE" else ANSWERS[name], body.request_id)
        assert events.ended == ["Exclusive consumer is already connected"]
        assert events.back == []

    play(golden, scene)


def test_a_refused_subscription_is_the_owners_own_error(golden):
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


def test_a_consumer_that_passes_through_sends_flow_and_ends_with_its_connection(golden):
    async def scene(owners, owner, consumer, events, asked):
        consumer.send(BaseCommand(type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=77, message_permits=10)))
        ((name, body),) = owner.next()
        assert (name, body.consumer_id, body.message_permits) == ("FLOW", 1, 10)
        owner.lose()
        await settle()
        assert len(events.ended) == 1

    play(golden, scene, zero_permit=False)


def test_closing_while_subscribing_leaves_nothing_at_the_owner(golden):
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


def test_a_client_that_goes_as_the_owner_answers_leaves_nothing_at_the_owner(golden):
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


def test_a_late_answer_reaches_nobody(golden):
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


def test_a_crowd_of_consumers_comes_to_the_owner_in_waves(golden, monkeypatch):
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


def test_a_reader_that_comes_back_asks_to_go_on_where_it_stands(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    command = subscribe()
    command.durable = False
    command.start_message_id.ledger_id = command.start_message_id.entry_id = LATEST
    play(golden, scene, command=command)


def test_no_ack_is_sent_before_it_is_known_that_the_cursor_is_the_one_from_before(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    play(golden, scene)


def test_acks_that_were_answered_shortly_before_the_connection_broke_are_known(golden):
    async def scene(owners, owner, consumer, events, asked):
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

    play(golden, scene)


def test_an_owner_that_closes_a_consumer_has_not_died(golden):
    async def scene(owners, owner, consumer, events, asked):
        command, _ = decode_command(golden("broker_close_consumer")[4:])
        command.close_consumer.consumer_id = 1
        events.consumer = None
        owner.say(command)
        await answered(owner)
        assert (consumer.closed_by_owner, consumer.lost_at) == (True, None)
        owner.lose()
        assert (consumer.closed_by_owner, consumer.lost_at is None) == (True, False)
        await consumer.close()

    play(golden, scene)
