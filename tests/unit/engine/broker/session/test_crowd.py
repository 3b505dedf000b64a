"""A client that creates very many consumers at once: some are being admitted, the others wait. When it last needed the broker."""

import asyncio
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from readonly_engine.broker.session import client_consumers as client_consumers_module
from readonly_engine.broker.session import closing as closing_module
from readonly_engine.broker.session import connection as connection_module
from readonly_engine.broker.session.bounds import MAX_CONCURRENT_SUBSCRIBES
from readonly_engine.broker.session.closing import ClosingConsumers
from readonly_engine.broker.session.connection import ClientConnection
from readonly_engine.broker.session.idle import IdleClock
from readonly_engine.broker.session.subscribe_refusals import SubscribeRefusals
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandCloseConsumer,
    CommandPong,
    CommandSubscribe,
    CommandSuccess,
)

from tests.support.waiting import until


class SubscribingClient:
    """A client connection whose consumers are admitted or refused by the test."""

    def __init__(self, monkeypatch):
        self.admissions, self.answers, self.splitter = {}, [], FrameSplitter()
        self.tasks = []
        monkeypatch.setattr(client_consumers_module, "MAX_BROKER_SUBSCRIBES", 0)
        self.broker = SimpleNamespace(
            draining=False,
            spawn=self.spawn,
            subscribing=0,
            subscribe_refusals=SubscribeRefusals(),
            closing_consumers=ClosingConsumers(self.spawn),
            idle=IdleClock(0.0),
        )
        self.connection = ClientConnection(self.broker)
        self.connection.connected = True
        monkeypatch.setattr(ClientConnection, "send", lambda _, frame: self.sent(frame))
        monkeypatch.setattr(client_consumers_module, "admit", self.admit)

    def spawn(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self.tasks.append(task)
        return task

    async def admit(self, _connection, _topic, subscribe):
        allowed = self.admissions[subscribe.consumer_id] = asyncio.get_running_loop().create_future()
        await allowed
        consumer = SimpleNamespace(
            consumer_id=subscribe.consumer_id, close=self.closed, unregister=lambda: None, on_answered=lambda: None
        )
        return consumer, BaseCommand(type=BaseCommand.SUCCESS, success=CommandSuccess())

    async def closed(self, _command):
        return None

    def sent(self, frame):
        for one in self.splitter.receive_data(frame):
            command, _ = decode_command(one)
            self.answers.append((BaseCommand.Type.Name(command.type), body_of(command).request_id))

    def subscribes(self, ids):
        for number in ids:
            subscribe = CommandSubscribe(
                topic="orders", subscription=f"s{number}", sub_type=0, consumer_id=number, request_id=number
            )
            self.connection.data_received(encode_command(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe)))

    def closes(self, number, request_id):
        close = CommandCloseConsumer(consumer_id=number, request_id=request_id)
        command = BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close)
        self.connection.data_received(encode_command(command))


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
@asynccontextmanager
async def client(monkeypatch):
    made = SubscribingClient(monkeypatch)
    try:
        yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await settle()


async def test_a_client_may_have_more_while_few_arrive_in_all(monkeypatch, client):
    most = MAX_CONCURRENT_SUBSCRIBES + 50
    monkeypatch.setattr(client_consumers_module, "MAX_BROKER_SUBSCRIBES", most)
    client.broker.subscribing = 20  # of other clients
    client.subscribes(range(most))
    await settle()
    assert len(client.admissions) == most - 20
    for number in range(2):
        client.admissions[number].set_result(None)
    await settle()
    assert (len(client.admissions), client.broker.subscribing) == (most - 18, most)
    client.broker.subscribing += 200
    for number in range(2, 40):
        client.admissions[number].set_result(None)
    await settle()
    assert len(client.admissions) == MAX_CONCURRENT_SUBSCRIBES + 40  # its own in any case, and no more
    for number in range(40, most - 18):
        client.admissions[number].set_result(None)
    await settle()
    assert len(client.admissions) == most
    assert client.broker.subscribing == 220 + 18


@pytest.mark.parametrize("gone", [False, True], ids=["client is there", "client has gone"])
async def test_one_that_is_refused_makes_room_while_the_client_is_there(gone, client):
    client.subscribes(range(MAX_CONCURRENT_SUBSCRIBES + 1))
    await settle()
    client.connection._closed = gone
    client.admissions[5].set_exception(OwnerUnavailableError("no"))
    await settle()
    assert client.answers == [("ERROR", 5)] or gone
    assert (MAX_CONCURRENT_SUBSCRIBES in client.admissions) != gone


async def test_one_that_waits_can_be_closed_and_is_not_created_twice(client):
    waiting = MAX_CONCURRENT_SUBSCRIBES
    client.subscribes(range(waiting + 2))
    client.subscribes([waiting])
    assert client.answers == [("ERROR", waiting)]
    client.closes(waiting, 1000)
    await settle()
    assert client.answers[1:] == [("SUCCESS", 1000)]
    client.admissions[0].set_result(None)
    await settle()
    assert waiting not in client.admissions
    assert waiting + 1 in client.admissions


async def test_a_place_in_a_long_queue_takes_as_long_as_in_a_short_one(client):
    consumers = client.connection._client_consumers
    consumers._subscribing = dict.fromkeys(range(-MAX_CONCURRENT_SUBSCRIBES, 0))

    def seconds(count):
        client.subscribes([count])
        consumers._queued.update(dict.fromkeys(range(count), b""))
        began = time.process_time()
        while consumers._queued:
            consumers._remove_queued(next(iter(consumers._queued)))
        return (time.process_time() - began) / count

    assert min(seconds(20_000) for _ in range(3)) < 4 * min(seconds(500) for _ in range(3))


async def test_the_consumers_of_lost_clients_are_closed_between_other_work(monkeypatch):
    monkeypatch.setattr(closing_module, "SLICE_S", 0.0)
    left, closed = [], []

    class Leaving:
        topic = "orders"

        def __init__(self, number):
            self.number = number

        def unregister(self):
            left.append(self.number)
            if self.number == 2:
                raise ValueError("not there")

        async def close(self):
            closed.append(self.number)

    tasks = []
    closing = ClosingConsumers(lambda coroutine: tasks.append(asyncio.ensure_future(coroutine)))
    for begin in (0, 1000, 2000):
        closing.close([Leaving(number) for number in range(begin, begin + 1000)])
        assert left == [0], "of all clients together"
    await settle()
    assert len(left) < 20
    await until(lambda: len(closed) == 3000)
    assert left == closed == [*range(3000)]
    await settle()
    closing.close([Leaving(3000)])
    assert left[-1] == 3000


async def test_an_address_that_refused_a_connection_is_noted(client):
    noted = []
    client.broker.note_refused = noted.append
    client.subscribes(range(2))
    await settle()
    client.admissions[0].set_exception(OwnerUnavailableError("cannot be reached", refused="pulsar://pool-1:6650"))
    client.admissions[1].set_exception(OwnerUnavailableError("did not answer"))
    await settle()
    assert noted == ["pulsar://pool-1:6650"]
    assert client.answers == [("ERROR", 0), ("ERROR", 1)]


def test_idle_time_starts_with_the_last_need():
    idle = IdleClock(10.0)
    assert idle.seconds(15.0, in_use=False) == 5
    idle.needed(20.0)
    assert idle.seconds(21.0, in_use=False) == 1
    assert idle.seconds(30.0, in_use=True) == 0
    assert idle.seconds(37.0, in_use=False) == 7


async def test_requests_and_consumers_need_the_broker_and_keep_alives_do_not(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(connection_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    client = SubscribingClient(monkeypatch)
    connection, idle = client.connection, client.broker.idle

    def seconds():
        return idle.seconds(now[0], in_use=connection.in_use)

    assert seconds() == 100
    connection.data_received(encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong())))
    assert (seconds(), connection.in_use) == (100, False)
    client.subscribes([1])
    await asyncio.sleep(0)
    assert (seconds(), connection.in_use) == (0, True)
    client.admissions[1].set_result(None)
    await asyncio.gather(*client.tasks)
    now[0] = 200.0
    assert (seconds(), connection.in_use) == (0, True)
    now[0] = 300.0
    client.closes(1, 2)
    await asyncio.gather(*client.tasks)
    await asyncio.sleep(0)
    now[0] = 305.0
    assert (seconds(), connection.in_use) == (5, False)


async def test_a_client_that_is_lost_with_a_consumer_needed_the_broker_until_then(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(connection_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    client = SubscribingClient(monkeypatch)
    nothing = SimpleNamespace(discard=lambda _: None, remove=lambda _: None, disconnect=lambda _: None)
    for name in ("connections", "keep_alive", "half_open", "limits"):
        setattr(client.broker, name, nothing)
    for needed, last in ((False, 0.0), (True, 100.0)):
        monkeypatch.setattr(type(client.connection), "in_use", needed)
        client.connection.connection_lost(None)
        assert client.broker.idle.seconds(100.0, in_use=False) == 100.0 - last
