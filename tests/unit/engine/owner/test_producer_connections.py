"""A client's own connections to owners, against brokers on real sockets."""

import asyncio

from readonly_engine.owner import identity_session as login
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandPing

from tests.support.waiting import until
from tests.unit.engine.owner.played_brokers import TOKEN, Broker, Client, Server, playing

TOPIC = "persistent://a/b/c"


class Publisher:
    """Records PINGs and backpressure."""

    def __init__(self):
        self.pings, self.writable = 0, []

    def on_owner_writable(self, connection, *, writable):
        self.writable.append(writable)

    def on_owner_ping(self, connection):
        self.pings += 1


async def test_each_client_has_its_own_connection_until_it_disconnects():
    async with playing(Server(b"old")) as (owners, server):
        await owners.authenticate(TOKEN, Client())
        first, second = [await owners.producer_connection(TOPIC, TOKEN, number) for number in (1, 2)]
        shared = await owners.owner_of(TOPIC, TOKEN)
        assert len({first, second, shared}) == 3
        assert await owners.producer_connection(TOPIC, TOKEN, 1) is first
        assert len(server.open) == 3
        assert {connection.connect.auth_data for connection in server.open} == {b"old"}
        owners.close_producer_connections(TOKEN, 1)
        await until(lambda: len(server.open) == 2)
        assert first.closed
        assert not second.closed
        owners.close_producer_connections(TOKEN, 1)
        owners.close_producer_connections(TOKEN, 2)
        await until(lambda: len(server.open) == 1)
        assert not shared.closed


async def test_opening_a_connection_ends_with_its_client(monkeypatch):
    async with playing(Server(b"old")) as (owners, server):
        await owners.authenticate(TOKEN, Client())
        await owners.owner_of(TOPIC, TOKEN)
        monkeypatch.setattr(Broker, "judge", lambda self: None)  # says neither yes nor no
        opening = asyncio.create_task(owners.producer_connection(TOPIC, TOKEN, 1))
        await until(lambda: len(server.connections) == 2)
        opening.cancel()
        owners.close_producer_connections(TOKEN, 1)
        await until(lambda: len(server.open) == 1)
        assert not owners.session(TOKEN)._opening


async def test_the_owners_ping_goes_to_the_client():
    async with playing(Server(b"old")) as (owners, server):
        await owners.authenticate(TOKEN, Client())
        connection = await owners.producer_connection(TOPIC, TOKEN, 1)
        publisher = Publisher()
        connection.dedicate_to(publisher)
        server.open[-1].send(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
        await until(lambda: publisher.pings == 1)
        assert "PONG" not in server.asked
        connection.pong()
        await until(lambda: "PONG" in server.asked)
        server.open[-1].transport.close()
        await until(lambda: publisher.writable == [True])


async def test_a_broken_producer_connection_does_not_fail_the_credentials(monkeypatch):
    monkeypatch.setattr(login, "VERIFICATION_S", 0.2)
    async with playing(Server(b"old")) as (owners, server):
        client = Client(b"new")
        await owners.authenticate(TOKEN, client)
        shared = await owners.owner_of(TOPIC, TOKEN)
        await owners.producer_connection(TOPIC, TOKEN, 1)
        server.good = {b"new"}
        server.connections[0].challenge()
        await until(lambda: server.connections[-1].credentials == b"new")
        owners.close_producer_connections(TOKEN, 1)  # while the owner has its say
        await until(lambda: len(server.open) == 1)
        await until(lambda: owners.session(TOKEN)._verification is None)
        assert client.expelled is None
        assert not shared.closed
        again = await owners.producer_connection(TOPIC, TOKEN, 1)
        assert server.connections[-1].connect.auth_data == b"new"
        server.connections[-1].challenge()
        server.good = {b"newer"}
        server.connections[-1].transport.abort()
        await until(lambda: again.closed)
        assert client.expelled is None
