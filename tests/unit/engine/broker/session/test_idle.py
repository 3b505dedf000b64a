"""Time since a client last needed the broker."""

import asyncio
from types import SimpleNamespace

from readonly_engine.broker.session import connection as connection_module
from readonly_engine.broker.session.idle import IdleClock
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandPong

from tests.unit.engine.broker.session.test_crowd import SubscribingClient


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
