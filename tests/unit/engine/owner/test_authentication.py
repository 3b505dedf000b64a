"""Clients' credentials against brokers on real sockets: acceptance, refusal, and challenges of several rounds."""

import asyncio

import pytest
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.pulsar_pb2 import ServerError

from tests.support.waiting import until
from tests.unit.engine.owner.played_brokers import TOKEN, Client, Server, playing


async def test_a_later_client_is_authenticated_too(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.directory.AUTH_CACHE_TTL_S", 0.0)
    async with playing(Server(b"old")) as (owners, server):
        await owners.authenticate(TOKEN, Client())
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        await owners.authenticate(TOKEN, Client())
        assert server.asked.count("CONNECT") == 2
        await until(lambda: len(server.open) == 1)  # one is enough
        server.good.clear()
        await asyncio.sleep(0.01)
        with pytest.raises(OwnerRefusedError, match="Failed to authenticate"):
            await owners.authenticate(TOKEN, Client())
        assert len(server.open) == 1


async def test_a_refusal_is_counted_and_not_cached():
    async with playing(Server()) as (owners, server):
        with pytest.raises(OwnerRefusedError):
            await owners.authenticate(TOKEN, Client())
        server.good.add(b"old")
        await owners.authenticate(TOKEN, Client())
        assert owners.refused_credentials == 1


async def test_anonymous_clients_share_a_connection():
    async with playing(Server(b"")) as (owners, server):
        for _ in range(3):
            await owners.authenticate(Identity("none"), Client())
        assert server.asked == ["CONNECT"]


async def test_the_next_host_is_used_and_preferred_later():
    async with playing(Server(b"old"), Server(b"old")) as (owners, first, second):
        first.close()
        await owners.authenticate(TOKEN, Client())
        connection = await owners.any_broker(TOKEN)
        assert (len(first.connections), len(second.connections)) == (0, 1)
        second.close()
        await until(lambda: connection.closed)  # the server sees its end earlier
        with pytest.raises(OwnerUnavailableError):
            await owners.any_broker(TOKEN)


async def test_a_clients_certificate_is_refused():
    async with playing(Server(b"something")) as (owners, _):
        with pytest.raises(OwnerRefusedError, match="cannot pass a client's TLS certificate on") as refused:
            await owners.authenticate(Identity("tls"), Client())
        assert refused.value.code == ServerError.AuthenticationError


async def test_a_clients_certificate_is_refused_by_a_broker_with_a_certificate():
    class Ours:
        certificate = "ours"

    server = await Server(b"").start()
    owners = OwnerDirectory(server.url, tls=Ours())
    for identity in (Identity("tls"), Identity("token", b"proxy", "bob", "tls")):
        with pytest.raises(OwnerRefusedError, match="cannot pass a client's TLS certificate on"):
            await owners.authenticate(identity, Client())
    assert server.connections == []
    server.close()


async def test_challenges_of_several_rounds_go_to_the_client():
    async with playing(Server(b"old", rounds=2)) as (owners, server):
        server.good |= {b"first", b"second"}
        client = Client(b"first", b"second")
        identity, _ = await owners.authenticate(TOKEN, client)
        assert client.asked == [b"round 1", b"round 0"]
        assert identity.connection_number
        assert await owners.any_broker(identity) is await owners.any_broker(identity)
        assert len(server.connections) == 1


async def test_credentials_of_several_rounds_are_not_shared():
    async with playing(Server(b"old", rounds=1)) as (owners, server):
        clients = [Client(b"old"), Client(b"old")]
        (one, _), (two, _) = await asyncio.gather(*(owners.authenticate(TOKEN, client) for client in clients))
        assert one != two
        assert len(server.open) == 2
        assert [client.asked for client in clients] == [[b"round 0"]] * 2


async def test_a_wrong_answer_in_a_round_gets_the_owners_error():
    async with playing(Server(b"old", rounds=1)) as (owners, server):
        with pytest.raises(OwnerRefusedError, match="Failed to authenticate"):
            await owners.authenticate(TOKEN, Client(b"wrong"))
        await until(lambda: not server.open)
