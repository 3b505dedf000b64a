"""Connections of one identity against brokers on real sockets: renewal of credentials, idle and silent connections."""

import asyncio

import pytest
from readonly_engine.owner import identity_session as login
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.pulsar_pb2 import ServerError

from tests.support.waiting import until
from tests.unit.engine.owner.played_brokers import TOKEN, Client, Server, playing


async def test_renewed_credentials_go_to_every_owner_and_new_connections():
    async with playing(Server(b"old"), Server(b"old"), Server(b"old")) as (owners, server, other, late):
        clients = [Client(b"new"), Client(b"new")]
        for client in clients:
            await owners.authenticate(TOKEN, client)
        await owners.peer_connection(other.url, TOKEN)
        for one in (server, other, late):
            one.good.add(b"new")
        server.connections[0].challenge()
        await until(lambda: other.connections[0].credentials == b"new" and server.connections[0].credentials == b"new")
        await owners.peer_connection(late.url, TOKEN)
        assert late.connections[0].connect.auth_data == b"new"
        other.connections[0].challenge()
        await until(lambda: other.asked.count("AUTH_RESPONSE") == 2)
        assert [client.asked for client in clients] == [[b"PulsarAuthRefresh"]] * 2
        assert [client.expelled for client in clients] == [None, None]


async def test_no_connection_opens_before_the_new_credentials_are_verified():
    """They may be those of another role, which an owner notices on an earlier connection only."""
    async with playing(Server(b"old"), Server(b"old", b"another's")) as (owners, server, late):
        client = Client(b"another's")
        await owners.authenticate(TOKEN, client)
        server.silent = True
        server.connections[0].challenge()
        await until(lambda: "AUTH_RESPONSE" in server.asked)
        opening = asyncio.gather(owners.peer_connection(late.url, TOKEN), return_exceptions=True)
        await asyncio.sleep(0.1)
        assert late.connections == []
        server.connections[0].judge()
        ((outcome,), _) = await asyncio.gather(opening, until(lambda: client.expelled))
        assert isinstance(outcome, OwnerUnavailableError)
        assert late.connections == []
        assert client.expelled.code == ServerError.AuthenticationError


async def test_a_client_without_support_for_challenges_is_disconnected_alone():
    async with playing(Server(b"old")) as (owners, server):
        able, unable = Client(b"new"), Client(able=False)
        await owners.authenticate(TOKEN, able)
        await owners.authenticate(TOKEN, unable)
        server.good.add(b"new")
        server.connections[0].challenge()
        await until(lambda: unable.expelled)
        owners.release(TOKEN, unable)
        await until(lambda: server.connections[0].credentials == b"new")
        assert able.expelled is None


async def test_a_silent_client_is_disconnected_in_time(monkeypatch):
    monkeypatch.setattr(login, "REFRESH_TIMEOUT_S", 0.2)
    async with playing(Server(b"old")) as (owners, server):
        answering, silent = Client(b"new"), Client()
        await owners.authenticate(TOKEN, answering)
        await owners.authenticate(TOKEN, silent)
        server.good.add(b"new")
        server.connections[0].challenge()
        await until(lambda: silent.expelled)
        assert answering.expelled is None


async def test_silent_clients_are_disconnected_when_the_owner_closes():
    async with playing(Server(b"old")) as (owners, server):
        clients = [Client(), Client()]
        for client in clients:
            await owners.authenticate(TOKEN, client)
        server.connections[0].challenge()
        await until(lambda: all(client.asked for client in clients))
        server.connections[0].transport.close()
        await until(lambda: all(client.expelled for client in clients))


async def test_refused_credentials_disconnect_every_client():
    async with playing(Server(b"old")) as (owners, server):
        clients = [Client(b"wrong"), Client(b"wrong")]
        for client in clients:
            await owners.authenticate(TOKEN, client)
        server.connections[0].challenge()
        await until(lambda: all(client.expelled for client in clients))
        assert {str(client.expelled) for client in clients} == {"Failed to authenticate"}


async def test_an_owner_that_refuses_a_new_connection_disconnects_the_clients():
    async with playing(Server(b"old"), Server()) as (owners, _, other):
        client = Client()
        await owners.authenticate(TOKEN, client)
        with pytest.raises(OwnerRefusedError):
            await owners.peer_connection(other.url, TOKEN)
        assert client.expelled.code == ServerError.AuthenticationError


async def test_a_challenge_to_a_connection_without_clients_closes_it():
    async with playing(Server(b"old")) as (owners, server):
        client = Client()
        await owners.authenticate(TOKEN, client)
        owners.release(TOKEN, client)
        server.connections[0].challenge()
        await until(lambda: not server.open)


async def test_connections_without_clients_are_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(login, "IDLE_TIMEOUT_S", 0.1)
    async with playing(Server(b"old")) as (owners, server):
        clients = [Client(), Client()]
        for client in clients:
            await owners.authenticate(TOKEN, client)
        owners.release(TOKEN, clients[0])
        await asyncio.sleep(0.2)
        assert len(server.open) == 1
        owners.release(TOKEN, clients[1])
        await until(lambda: not server.open)
        await until(lambda: TOKEN not in owners._sessions)


async def test_sessions_without_clients_are_dropped(monkeypatch):
    monkeypatch.setattr(login, "IDLE_TIMEOUT_S", 0.05)
    async with playing(Server(b"old")) as (owners, server):
        with pytest.raises(OwnerRefusedError):
            await owners.any_broker(Identity("token", b"wrong"))
        await owners.any_broker(TOKEN)
        await until(lambda: not owners._sessions)
        await until(lambda: not server.open)


async def test_the_connection_to_a_silent_owner_is_closed(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.connection.KEEP_ALIVE_S", 0.1)
    async with playing(Server(b"old")) as (owners, server):
        await owners.authenticate(TOKEN, Client())
        connection = await owners.any_broker(TOKEN)
        await until(lambda: server.asked.count("PING") >= 3)
        assert not connection.closed
        server.silent = True
        await until(lambda: connection.closed)
        server.silent = False
        assert not (await owners.any_broker(TOKEN)).closed
