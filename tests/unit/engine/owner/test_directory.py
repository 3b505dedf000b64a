"""Lookups of owners against brokers on real sockets: proxies, timeouts, shared lookups."""

import asyncio

import pytest
from readonly_engine.owner.directory import MAX_REDIRECTS, OwnerDirectory
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.pulsar_pb2 import CommandLookupTopic, CommandLookupTopicResponse

from tests.support.waiting import pass_time, until
from tests.unit.engine.owner.played_brokers import TOKEN, Client, Server, playing


async def test_a_proxy_gets_the_url_of_the_broker():
    async with playing(Server(b"old")) as (owners, server):
        server.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Connect,
            broker_service_url="pulsar://broker-1.internal:6650",
            proxy_through_service_url=True,
        )
        await owners.authenticate(TOKEN, Client())
        connection = await owners.owner_of("persistent://a/b/c", TOKEN)
        assert connection.url == "pulsar://broker-1.internal:6650"
        assert server.connections[-1].connect.proxy_to_broker_url == "broker-1.internal:6650"


async def test_a_request_without_an_answer_times_out(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.requests.REQUEST_TIMEOUT_S", 10.0)
    async with playing(Server(b"old")) as (owners, server):
        await owners.authenticate(TOKEN, Client())
        connection = await owners.any_broker(TOKEN)
        topics = ["persistent://a/b/c", "persistent://a/b/d"]
        await owners.owner_of(topics[0], TOKEN)
        server.silent = True
        owners.invalidate(topics[0], TOKEN)
        server.asked.clear()
        pass_time(5.0)
        silent = [asyncio.create_task(owners.owner_of(topic, TOKEN)) for topic in topics]
        await until(lambda: len(server.asked) == 2)
        pass_time(5.0)
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in silent), "what was answered ends no later wait"
        pass_time(5.0)
        for task in silent:
            with pytest.raises(OwnerUnavailableError, match=r"did not answer LOOKUP in 10 s"):
                await task
        server.silent = False
        assert connection.idle
        await owners.owner_of(topics[0], TOKEN)


async def test_an_owner_without_the_required_url_is_an_error():
    async with playing(Server(b"old")) as (owners, server):
        server.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Connect, broker_service_url_tls="pulsar+ssl://b:6651"
        )
        with pytest.raises(OwnerUnavailableError, match="names no pulsar URL, as service-url has"):
            await owners.owner_of("persistent://a/b/c", TOKEN)


async def test_callers_share_lookups_for_a_short_time(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.directory.LOOKUP_CACHE_TTL_S", 10.0)
    async with playing(Server(b"old")) as (owners, server):
        await owners.authenticate(TOKEN, Client())
        crowd = [owners.owner_of("persistent://a/b/c", TOKEN) for _ in range(50)]
        found = await asyncio.gather(*crowd, owners.owner_of("persistent://a/b/d", TOKEN))
        assert len(set(found)) == 1
        assert server.asked.count("LOOKUP") == 2
        assert await owners.owner_of("persistent://a/b/c", TOKEN) is found[0]
        assert server.asked.count("LOOKUP") == 2  # another topic is another question
        pass_time(10.0)
        await until(lambda: not owners._lookup_cache)
        await owners.owner_of("persistent://a/b/c", TOKEN)
        assert server.asked.count("LOOKUP") == 3
        owners.invalidate("persistent://a/b/c", TOKEN)
        await owners.owner_of("persistent://a/b/c", TOKEN)
        assert server.asked.count("LOOKUP") == 4
        server.connections[-1].transport.abort()
        await until(lambda: found[0].closed)
        assert await owners.owner_of("persistent://a/b/c", TOKEN) is not found[0]


async def test_connect_carries_the_whole_identity():
    """CONNECT has every field of the identity."""
    async with playing(Server(b"old")) as (owners, server):
        identity = Identity("token", b"old", "bob", "basic", "bobs", "4.0.8")
        await owners.authenticate(identity, Client())
        assert Identity.of(server.connections[0].connect) == identity
        assert server.connections[0].connect.feature_flags.supports_auth_refresh


def test_connections_inside_the_pool_use_tls_if_peer_tls_is_set():
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


async def test_a_relayed_lookup_follows_redirects():
    async with playing(Server(b"old"), Server(b"old")) as (owners, first, second):
        first.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Redirect, broker_service_url=second.url, authoritative=True
        )
        lookup = CommandLookupTopic(topic="persistent://a/b/c", request_id=7, authoritative=False)
        answer = await owners.look_up(lookup, TOKEN)
        assert answer.lookup_topic_response.response == CommandLookupTopicResponse.Connect
        assert answer.lookup_topic_response.broker_service_url == second.url
        assert [server.asked.count("LOOKUP") for server in (first, second)] == [1, 1]
        assert lookup.authoritative


async def test_a_lookup_that_is_redirected_without_end_is_an_error():
    async with playing(Server(b"old")) as (owners, server):
        server.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Redirect, broker_service_url=server.url
        )
        with pytest.raises(OwnerUnavailableError, match=f"redirected {MAX_REDIRECTS} times, at last to {server.url}"):
            await owners.look_up(CommandLookupTopic(topic="persistent://a/b/c", request_id=7), TOKEN)
        assert server.asked.count("LOOKUP") == MAX_REDIRECTS
