"""An owner's end of a connection for tests: a list of the commands that it received, and a real broker's answers.

The answers are golden frames under the connection's own request ids. `play` subscribes one OwnerConsumer and runs a test on it.
"""

import asyncio

from readonly_engine.owner.connection import OwnerConnection
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.identity import Identity
from readonly_engine.owner.identity_session import ConnectionTarget
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandGetLastMessageId, CommandSubscribe

LATEST = (1 << 63) - 1


ANSWERS = {
    "LOOKUP": "broker_lookup_response",
    "SUBSCRIBE": "broker_success",
    "GET_LAST_MESSAGE_ID": "broker_get_last_message_id_response",
    "CLOSE_CONSUMER": "broker_success",
}


def owner_url(golden):
    """Return the owner's URL in the golden LOOKUP_RESPONSE."""
    return decode_command(golden("broker_lookup_response")[4:])[0].lookup_topic_response.broker_service_url


class Written(asyncio.Transport):
    """Decodes and keeps the written commands."""

    def __init__(self):
        super().__init__()
        self.splitter = FrameSplitter()
        self.commands = []

    def write(self, data):
        self.commands += [decode_command(frame)[0] for frame in self.splitter.receive_data(data)]

    def close(self):
        pass


class Owner:
    """The owner's end of a connection."""

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
        """Return the commands since the last call."""
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
        self.dead = []

    def on_owner_command(self, command, payload):
        self.said.append(command)

    def on_detached(self):
        self.away += 1
        return True

    def on_owner_dead(self, checked_at):
        self.dead.append(checked_at)
        return True

    def mark_delete_position(self):
        return self.position

    def on_resubscribed(self, state):
        self.back.append(state)
        if self.consumer is not None:
            self.consumer.resume_acks()

    def on_closed_by_owner(self, reason):
        self.ended.append(reason)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def answered(owner, task=None):
    """Answer the commands of the consumer until a task has ended. Return the commands."""
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


async def subscribed(golden, *, zero_permit=True, command=None):
    """Subscribe; returns the owners, the one that is asked, the consumer, its events, and what was asked."""
    owners = OwnerDirectory(owner_url(golden))
    owner, events = Owner(owners, golden), Events()
    owner.next()
    sent = command or subscribe()
    consumer = events.consumer = OwnerConsumer(owners, Identity(), sent, events, zero_permit=zero_permit)
    task = asyncio.create_task(consumer.subscribe())
    asked = await answered(owner, task)
    await task
    return owners, owner, consumer, events, asked


def ack(entry_id, **fields):
    made = CommandAck(ack_type=CommandAck.Individual, consumer_id=77, **fields)
    made.message_id.add(ledger_id=1, entry_id=entry_id)
    return made


def plain(entry_id):
    return ack(entry_id).SerializeToString()[4:]  # without the consumer's id and the type


async def moved(consumer, seek):
    with consumer.expecting_close():
        return await consumer.request(seek)


async def consumer_closed(owner, consumer):
    task = asyncio.create_task(consumer.close())
    asked = await answered(owner, task)
    await task
    assert [name for name, _ in asked] == ["CLOSE_CONSUMER"]


def closed_by_owner(golden, consumer_id=1):
    command, _ = decode_command(golden("broker_close_consumer")[4:])
    command.close_consumer.consumer_id = consumer_id
    return command


def question():
    return BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, get_last_message_id=CommandGetLastMessageId())
