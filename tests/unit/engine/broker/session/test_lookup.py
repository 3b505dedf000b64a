"""Answers to lookups: the broker of the pool nearest to the client; source cluster and pool are played."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.bindings import Bindings, from_patterns
from readonly_engine.broker.pool.member_selector import MemberSelector
from readonly_engine.broker.pool.membership import Member
from readonly_engine.broker.session.lookup import answer_lookup
from readonly_engine.config.listeners import Urls
from readonly_engine.config.settings import Unbound
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopic, CommandLookupTopicResponse

BOUND, UNBOUND = "persistent://public/default/orders", "persistent://public/default/other"
OWNER = "pulsar://owner:6650"
A, B = (
    Member(f"pulsar://{zone}:6650", listeners={"external": Urls(f"pulsar://{zone}.out:6650")}, locality=f"/{zone}")
    for zone in "ab"
)


class Client:
    """A client, and the broker that it asked: one in zone a."""

    def __init__(self, members=(A, B), listener=""):
        self.listener, self.tls, self.peer = listener, False, "10.0.0.5"
        self.identity = SimpleNamespace(anonymous=True)
        self.answer = None
        self.relayed = []
        self.selector = MemberSelector(0)
        self.services = SimpleNamespace(
            bindings=Bindings((from_patterns("b", [BOUND]),)),
            unbound=Unbound.REDIRECT,
            replay=None,
            pool=SimpleNamespace(members={member.url: member for member in members}, name="p"),
            choose_broker=lambda *, tls, listener, locality: self.selector.choose(
                members, tls=tls, listener=listener, locality=locality or "/a"
            ),
            owners=SimpleNamespace(any_broker=self.any_broker, look_up=self.look_up),
        )

    async def any_broker(self, _):
        return self

    async def request(self, command):
        self.relayed.append(command.lookup_topic)
        return self.response(CommandLookupTopicResponse.Redirect)

    async def look_up(self, lookup, _):
        self.relayed.append(lookup)
        return self.response(CommandLookupTopicResponse.Connect)

    @staticmethod
    def response(kind):
        found = CommandLookupTopicResponse(response=kind, broker_service_url=OWNER)
        return BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookup_topic_response=found)

    def respond(self, command, request_id):
        self.answer = command.lookup_topic_response

    def send(self, frame):
        command, _ = decode_command(frame[LENGTH_BYTES:])
        self.answer = command.lookup_topic_response

    def look_up_topic(self, topic=BOUND, listener="", rack=None):
        lookup = CommandLookupTopic(topic=topic, request_id=1)
        if listener:
            lookup.advertised_listener_name = listener
        if rack is not None:
            lookup.properties.add(key="rack", value=rack)
        asyncio.run(answer_lookup(self, BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=lookup)))
        return self.answer


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {A.url}),  # it asked a broker in zone a
        ({"rack": "b"}, {B.url}),
        ({"rack": "/b"}, {B.url}),
        ({"listener": "/b"}, {B.url}),
        ({"listener": "external"}, {"pulsar://a.out:6650"}),
        ({"listener": "external", "rack": "b"}, {"pulsar://b.out:6650"}),
        ({"rack": "c"}, {A.url, B.url}),
        ({"rack": "not a rack"}, {A.url}),
    ],
)
def test_a_client_is_sent_to_a_broker_of_its_locality(asked, expected):
    client = Client()
    assert {client.look_up_topic(**asked).broker_service_url for _ in range(6)} == expected


def test_a_locality_without_a_live_broker_gets_any_other():
    assert Client([A]).look_up_topic(rack="b").broker_service_url == A.url
    assert Client([A]).look_up_topic(listener="/b").broker_service_url == A.url


def test_a_locality_as_listener_leaves_the_listener_of_the_port():
    client = Client(listener="external")
    assert client.look_up_topic(listener="/b").broker_service_url == "pulsar://b.out:6650"


def test_brokers_of_the_source_cluster_do_not_get_a_locality_as_listener():
    """They refuse listeners that they do not have, from this broker and from a client that they redirect."""
    client = Client()
    answer = client.look_up_topic(UNBOUND, listener="/b", rack="b")
    assert (answer.response, answer.broker_service_url) == (CommandLookupTopicResponse.Connect, OWNER)
    (relayed,) = client.relayed
    assert not relayed.HasField("advertised_listener_name")
    assert [item.value for item in relayed.properties] == ["b"]


def test_another_listener_is_relayed_as_it_is():
    client = Client()
    assert client.look_up_topic(UNBOUND, listener="external").response == CommandLookupTopicResponse.Redirect
    assert client.relayed[0].advertised_listener_name == "external"
