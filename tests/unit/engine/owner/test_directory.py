"""Owners against brokers that are played on real sockets: who is asked for what, with which credentials."""

from __future__ import annotations

import asyncio

import pytest
from readonly_engine.owner import identity_session as login
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.commands import body_of, command_name, decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthChallenge,
    CommandConnected,
    CommandError,
    CommandLookupTopicResponse,
    CommandPong,
    ServerError,
)

from tests.support.waiting import until

FAILED = CommandError(request_id=-1, error=ServerError.AuthenticationError, message="Failed to authenticate")
TOKEN = Identity("token", b"old")


class Broker(asyncio.Protocol):
    """One connection of a broker that knows which credentials are good, and asks as many rounds as it is told to."""

    def __init__(self, server):
        self.server, self.splitter, self.transport = server, FrameSplitter(), None
        self.credentials, self.connect, self.let_in, self.closed = b"", None, False, False
        self.rounds = server.rounds

    def connection_made(self, transport):
        self.transport = transport
        self.server.connections.append(self)

    def connection_lost(self, exc):
        self.closed = True

    def data_received(self, data):
        for frame in self.splitter.receive_data(data):
            self.handle(decode_command(frame)[0])

    def send(self, command):
        self.transport.write(encode_command(command))

    def challenge(self, question=b"PulsarAuthRefresh"):
        data = AuthData(auth_method_name="token", auth_data=question)
        self.send(BaseCommand(type=BaseCommand.AUTH_CHALLENGE, auth_challenge=CommandAuthChallenge(challenge=data)))

    def judge(self):
        if self.credentials not in self.server.good:
            self.send(BaseCommand(type=BaseCommand.ERROR, error=FAILED))
            self.transport.close()
        elif self.rounds:
            self.rounds -= 1
            self.challenge(b"round %d" % self.rounds)
        elif not self.let_in:
            self.let_in = True
            self.send(BaseCommand(type=BaseCommand.CONNECTED, connected=CommandConnected(protocol_version=21)))

    def handle(self, command):
        self.server.asked.append(command_name(command))
        if command.type == BaseCommand.CONNECT:
            self.connect, self.credentials = command.connect, command.connect.auth_data
            self.judge()
        elif command.type == BaseCommand.AUTH_RESPONSE:
            self.credentials = command.auth_response.response.auth_data
            if not self.server.silent:
                self.judge()
        elif command.type == BaseCommand.PING and not self.server.silent:
            self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
        elif command.type == BaseCommand.LOOKUP and not self.server.silent:
            answer = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookup_topic_response=self.server.lookup)
            body_of(answer).request_id = command.lookup_topic.request_id
            self.send(answer)


class Server:
    def __init__(self, *good, rounds=0):
        self.good, self.rounds, self.connections, self.asked = set(good), rounds, [], []
        self.lookup, self.url, self.server, self.silent = CommandLookupTopicResponse(), "", None, False

    async def start(self):
        self.server = await asyncio.get_running_loop().create_server(lambda: Broker(self), "127.0.0.1", 0)
        self.url = f"pulsar://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        self.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Connect, broker_service_url=self.url, authoritative=True
        )
        return self

    @property
    def open(self):
        return [connection for connection in self.connections if not connection.closed]

    def close(self):
        self.server.close()
        for connection in self.open:
            connection.transport.abort()


class Client:
    """A Bearer that answers with what it has; with nothing it stays silent."""

    def __init__(self, *answers, able=True):
        self.answers, self.able, self.asked, self.expelled = list(answers), able, [], None

    def challenge(self, challenge, answered):
        if not self.able:
            return False
        self.asked.append(challenge.auth_data)
        if self.answers:
            asyncio.get_running_loop().call_soon(answered, self.answers.pop(0))
        return True

    def disconnect(self, error):
        self.expelled = error


def play(scene, *servers):
    async def run():
        for server in servers:
            await server.start()
        owners = OwnerDirectory(*(server.url for server in servers))
        try:
            await asyncio.wait_for(scene(owners, *servers), 20)
        finally:
            owners.close()
            for server in servers:
                server.close()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(login, "VERIFICATION_S", 0.05)


# Coming in


def test_clients_with_equal_credentials_share_what_is_opened():
    async def scene(owners, server):
        clients = [Client() for _ in range(50)]
        admitted = await asyncio.gather(*(owners.authenticate(TOKEN, client) for client in clients))
        assert {identity for identity, _ in admitted} == {TOKEN}
        assert len(server.connections) == 1
        assert await owners.any_broker(TOKEN) is await owners.any_broker(TOKEN)
        assert len(server.open) == 1

    play(scene, Server(b"old"))


def test_who_comes_later_is_shown_to_the_owner_too(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.directory.AUTH_CACHE_TTL_S", 0.0)

    async def scene(owners, server):
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

    play(scene, Server(b"old"))


def test_a_refusal_is_not_remembered():
    async def scene(owners, server):
        with pytest.raises(OwnerRefusedError):
            await owners.authenticate(TOKEN, Client())
        server.good.add(b"old")
        await owners.authenticate(TOKEN, Client())

    play(scene, Server())


def test_who_shows_nothing_costs_no_connection_of_its_own():
    async def scene(owners, server):
        for _ in range(3):
            await owners.authenticate(Identity("none"), Client())
        assert server.asked == ["CONNECT"]

    play(scene, Server(b""))


def test_the_next_host_is_asked_and_stays_the_first():
    async def scene(owners, first, second):
        first.close()
        await owners.authenticate(TOKEN, Client())
        await owners.any_broker(TOKEN)
        assert (len(first.connections), len(second.connections)) == (0, 1)
        second.close()
        await until(lambda: not second.open)
        with pytest.raises(OwnerUnavailableError):
            await owners.any_broker(TOKEN)

    play(scene, Server(b"old"), Server(b"old"))


def test_a_certificate_cannot_be_passed_on():
    async def scene(owners, server):
        with pytest.raises(OwnerRefusedError, match="cannot pass a client's TLS certificate on") as refused:
            await owners.authenticate(Identity("tls"), Client())
        assert refused.value.code == ServerError.AuthenticationError

    play(scene, Server(b"something"))


def test_our_own_certificate_is_never_taken_for_a_clients():
    class Ours:
        certificate = "ours"

    async def run():
        server = await Server(b"").start()
        owners = OwnerDirectory(server.url, tls=Ours())
        for identity in (Identity("tls"), Identity("token", b"proxy", "bob", "tls")):
            with pytest.raises(OwnerRefusedError, match="cannot pass a client's TLS certificate on"):
                await owners.authenticate(identity, Client())
        assert server.connections == []
        server.close()

    asyncio.run(run())


# Several rounds


def test_rounds_of_the_owner_are_the_clients():
    async def scene(owners, server):
        server.good |= {b"first", b"second"}
        client = Client(b"first", b"second")
        identity, _ = await owners.authenticate(TOKEN, client)
        assert client.asked == [b"round 1", b"round 0"]
        assert identity.connection_number
        assert await owners.any_broker(identity) is await owners.any_broker(identity)
        assert len(server.connections) == 1

    play(scene, Server(b"old", rounds=2))


def test_what_was_proven_in_rounds_is_not_shared():
    async def scene(owners, server):
        clients = [Client(b"old"), Client(b"old")]
        (one, _), (two, _) = await asyncio.gather(*(owners.authenticate(TOKEN, client) for client in clients))
        assert one != two
        assert len(server.open) == 2
        assert [client.asked for client in clients] == [[b"round 0"]] * 2

    play(scene, Server(b"old", rounds=1))


def test_a_wrong_answer_in_a_round_is_refused_in_the_owners_words():
    async def scene(owners, server):
        with pytest.raises(OwnerRefusedError, match="Failed to authenticate"):
            await owners.authenticate(TOKEN, Client(b"wrong"))
        await until(lambda: not server.open)

    play(scene, Server(b"old", rounds=1))


# Credentials that expire


def test_renewed_credentials_reach_every_owner_and_those_met_later():
    async def scene(owners, server, other, late):
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

    play(scene, Server(b"old"), Server(b"old"), Server(b"old"))


def test_nothing_is_opened_before_the_owner_has_judged_the_new_credentials():
    """They may be another role's: only a connection that was open before tells."""

    async def scene(owners, server, late):
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

    play(scene, Server(b"old"), Server(b"old", b"another's"))


def test_who_cannot_be_asked_is_sent_away_alone():
    async def scene(owners, server):
        able, unable = Client(b"new"), Client(able=False)
        await owners.authenticate(TOKEN, able)
        await owners.authenticate(TOKEN, unable)
        server.good.add(b"new")
        server.connections[0].challenge()
        await until(lambda: unable.expelled)
        owners.release(TOKEN, unable)
        await until(lambda: server.connections[0].credentials == b"new")
        assert able.expelled is None

    play(scene, Server(b"old"))


def test_who_says_nothing_is_sent_away_in_time(monkeypatch):
    monkeypatch.setattr(login, "REFRESH_TIMEOUT_S", 0.2)

    async def scene(owners, server):
        answering, silent = Client(b"new"), Client()
        await owners.authenticate(TOKEN, answering)
        await owners.authenticate(TOKEN, silent)
        server.good.add(b"new")
        server.connections[0].challenge()
        await until(lambda: silent.expelled)
        assert answering.expelled is None

    play(scene, Server(b"old"))


def test_where_nobody_answers_all_go_when_the_owner_closes():
    async def scene(owners, server):
        clients = [Client(), Client()]
        for client in clients:
            await owners.authenticate(TOKEN, client)
        server.connections[0].challenge()
        await until(lambda: all(client.asked for client in clients))
        server.connections[0].transport.close()
        await until(lambda: all(client.expelled for client in clients))

    play(scene, Server(b"old"))


def test_refused_credentials_send_every_client_away_to_come_again():
    async def scene(owners, server):
        clients = [Client(b"wrong"), Client(b"wrong")]
        for client in clients:
            await owners.authenticate(TOKEN, client)
        server.connections[0].challenge()
        await until(lambda: all(client.expelled for client in clients))
        assert {str(client.expelled) for client in clients} == {"Failed to authenticate"}

    play(scene, Server(b"old"))


def test_an_owner_that_refuses_a_new_connection_sends_the_clients_away():
    async def scene(owners, server, other):
        client = Client()
        await owners.authenticate(TOKEN, client)
        with pytest.raises(OwnerRefusedError):
            await owners.peer_connection(other.url, TOKEN)
        assert client.expelled.code == ServerError.AuthenticationError

    play(scene, Server(b"old"), Server())


def test_a_challenge_to_a_connection_without_clients_closes_it():
    async def scene(owners, server):
        client = Client()
        await owners.authenticate(TOKEN, client)
        owners.release(TOKEN, client)
        server.connections[0].challenge()
        await until(lambda: not server.open)

    play(scene, Server(b"old"))


def test_connections_without_clients_are_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(login, "IDLE_TIMEOUT_S", 0.1)

    async def scene(owners, server):
        clients = [Client(), Client()]
        for client in clients:
            await owners.authenticate(TOKEN, client)
        owners.release(TOKEN, clients[0])
        await asyncio.sleep(0.2)
        assert len(server.open) == 1
        owners.release(TOKEN, clients[1])
        await until(lambda: not server.open)
        await until(lambda: TOKEN not in owners._sessions)

    play(scene, Server(b"old"))


def test_nothing_is_kept_of_who_never_came_in(monkeypatch):
    monkeypatch.setattr(login, "IDLE_TIMEOUT_S", 0.05)

    async def scene(owners, server):
        with pytest.raises(OwnerRefusedError):
            await owners.any_broker(Identity("token", b"wrong"))
        await owners.any_broker(TOKEN)
        await until(lambda: not owners._sessions)
        await until(lambda: not server.open)

    play(scene, Server(b"old"))


def test_an_owner_that_says_nothing_any_more_is_given_up(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.connection.KEEP_ALIVE_S", 0.1)

    async def scene(owners, server):
        await owners.authenticate(TOKEN, Client())
        connection = await owners.any_broker(TOKEN)
        await until(lambda: server.asked.count("PING") >= 3)
        assert not connection.closed
        server.silent = True
        await until(lambda: connection.closed)
        server.silent = False
        assert not (await owners.any_broker(TOKEN)).closed

    play(scene, Server(b"old"))


# Finding the owner


def test_a_proxy_is_told_which_broker_is_meant():
    async def scene(owners, server):
        server.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Connect,
            broker_service_url="pulsar://broker-1.internal:6650",
            proxy_through_service_url=True,
        )
        await owners.authenticate(TOKEN, Client())
        connection = await owners.owner_of("persistent://a/b/c", TOKEN)
        assert connection.url == "pulsar://broker-1.internal:6650"
        assert server.connections[-1].connect.proxy_to_broker_url == "broker-1.internal:6650"

    play(scene, Server(b"old"))


def test_an_owner_that_does_not_answer_is_waited_for_no_longer_than_said(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.requests.REQUEST_TIMEOUT_S", 0.2)

    async def scene(owners, server):
        await owners.authenticate(TOKEN, Client())
        connection = await owners.any_broker(TOKEN)
        topics = ["persistent://a/b/c", "persistent://a/b/d"]
        await owners.owner_of(topics[0], TOKEN)  # what was answered ends no later wait
        server.silent = True
        owners.invalidate(topics[0], TOKEN)
        first = asyncio.create_task(owners.owner_of(topics[0], TOKEN))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(owners.owner_of(topics[1], TOKEN))
        with pytest.raises(OwnerUnavailableError, match=r"did not answer LOOKUP in 0.2 s"):
            await first
        assert not second.done()
        server.silent = False
        with pytest.raises(OwnerUnavailableError, match="did not answer LOOKUP"):
            await second
        assert connection.idle
        await owners.owner_of(topics[0], TOKEN)

    play(scene, Server(b"old"))


def test_an_owner_without_the_address_that_is_needed_says_so():
    async def scene(owners, server):
        server.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Connect, broker_service_url_tls="pulsar+ssl://b:6651"
        )
        with pytest.raises(OwnerUnavailableError, match="names no pulsar URL, as writer-url has"):
            await owners.owner_of("persistent://a/b/c", TOKEN)

    play(scene, Server(b"old"))


def test_a_crowd_shares_its_lookups_for_a_moment(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.directory.LOOKUP_CACHE_TTL_S", 0.05)

    async def scene(owners, server):
        await owners.authenticate(TOKEN, Client())
        crowd = [owners.owner_of("persistent://a/b/c", TOKEN) for _ in range(50)]
        found = await asyncio.gather(*crowd, owners.owner_of("persistent://a/b/d", TOKEN))
        assert len(set(found)) == 1
        assert server.asked.count("LOOKUP") == 2
        assert await owners.owner_of("persistent://a/b/c", TOKEN) is found[0]
        assert server.asked.count("LOOKUP") == 2  # another topic is another question
        await until(lambda: not owners._lookup_cache)
        await owners.owner_of("persistent://a/b/c", TOKEN)
        assert server.asked.count("LOOKUP") == 3
        owners.invalidate("persistent://a/b/c", TOKEN)
        await owners.owner_of("persistent://a/b/c", TOKEN)
        assert server.asked.count("LOOKUP") == 4
        server.connections[-1].transport.abort()
        await until(lambda: found[0].closed)
        assert await owners.owner_of("persistent://a/b/c", TOKEN) is not found[0]

    play(scene, Server(b"old"))


def test_a_consumer_is_no_reason_to_forget_whose_it_is():
    """What clients say of themselves travels in every CONNECT, and nothing else does."""

    async def scene(owners, server):
        identity = Identity("token", b"old", "bob", "basic", "bobs", "4.0.8")
        await owners.authenticate(identity, Client())
        assert Identity.of(server.connections[0].connect) == identity
        assert server.connections[0].connect.feature_flags.supports_auth_refresh

    play(scene, Server(b"old"))


def test_another_broker_of_the_pool_is_spoken_to_with_tls_only_where_its_authorities_are_known():
    class Known:
        certificate = None

        def context(self):
            return None

    plain, encrypted = "pulsar://peer:6650", "pulsar+ssl://peer:6651"
    assert OwnerDirectory(plain).peer_url(plain, encrypted) == plain
    owners = OwnerDirectory(plain, peer_tls=Known())
    assert owners.peer_url(plain, encrypted) == encrypted
    with pytest.raises(OwnerUnavailableError, match="tls-listen"):
        owners.peer_url(plain, "")
