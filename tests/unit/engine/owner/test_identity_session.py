"""Connections of one identity against brokers on real sockets: credentials and their renewal, idle and silent ones, producers."""

import asyncio

import pytest
from readonly_engine.owner import identity_session as login
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandPing, ServerError

from tests.support.waiting import until
from tests.unit.engine.owner.played_brokers import TOKEN, Broker, Client, Server, playing


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


async def test_an_idle_connection_to_a_broker_of_the_pool_is_closed_although_clients_stay(monkeypatch):
    monkeypatch.setattr(login, "IDLE_TIMEOUT_S", 0.1)
    async with playing(Server(b"old"), Server(b"old"), Server(b"old")) as (owners, server, idle, used):
        client = Client()
        await owners.authenticate(TOKEN, client)
        await owners.peer_connection(idle.url, TOKEN)
        kept = await owners.peer_connection(used.url, TOKEN)
        number = kept.add_consumer(object())
        await until(lambda: not idle.open)
        assert (len(server.open), len(used.open)) == (1, 1)
        kept.remove_consumer(number)
        await until(lambda: not used.open)
        assert len(server.open) == 1
        await owners.peer_connection(idle.url, TOKEN)
        await until(lambda: not idle.open)


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
