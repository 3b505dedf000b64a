"""Which consumers are left to the owner with `placement: WhenCheaper`."""

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from readonly_engine.broker.consumer.owner_placed import cheaper_owner, may_be_placed
from readonly_engine.broker.consumer.route import CursorPlace, Placement
from readonly_engine.broker.cursors.local_requests import LocalRequest
from readonly_engine.broker.passthrough.pool_metadata import POOL_KEY
from readonly_engine.broker.pool.bindings import Bindings, Placing, from_patterns
from readonly_engine.broker.pool.cheaper import RecentRedirects
from readonly_engine.broker.pool.redirects import RedirectHistory
from readonly_engine.config.listeners import DEFAULT, Urls
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopicResponse, CommandSubscribe, ServerError
from readonly_engine.wire.subscribe_info import SubscribeInfo

TOPIC = parse_topic_name("orders")
ALWAYS = from_patterns("b", ["orders"])
CHEAPER = replace(ALWAYS, placement=Placing.WHEN_CHEAPER)
OWNER = Urls("pulsar://owner:6650", "")


class Scene:
    """A new consumer, an owner that answers, and nobody else on the topic."""

    def __init__(self, *bindings):
        self.subscriptions, self.lookups = {}, []
        self.unanswered = self.refusal = None
        self.subscribe = CommandSubscribe(topic=str(TOPIC), subscription="s", durable=True)
        self.client = SimpleNamespace(
            identity="me", address="a", client_version="Pulsar-Java-4.0.8", listener=DEFAULT, tls=False, services=self
        )
        self.bindings = Bindings(bindings or (CHEAPER,))
        self.passthrough = SimpleNamespace(statistics=self.statistics, pool="p")
        self.owners = SimpleNamespace(look_up=self.look_up)
        self.local_names = SimpleNamespace(check=self.check)
        self.recent_redirects, self.redirects = RecentRedirects(), RedirectHistory()

    async def statistics(self, *_):
        return {"subscriptions": self.subscriptions}

    async def look_up(self, lookup, _identity):
        if self.unanswered is not None:
            raise self.unanswered
        self.lookups.append(lookup)
        answer = CommandLookupTopicResponse(broker_service_url=OWNER.url)
        return BaseCommand(lookup_topic_response=answer)

    async def check(self, *_):
        if self.refusal is not None:
            raise self.refusal

    def place(self, *, bound=True, cursor=CursorPlace.OWNER, request=None):
        placement = Placement(TOPIC, SubscribeInfo.of(self.subscribe), bound, cursor, request)
        return asyncio.run(cheaper_owner(self.client, placement, self.subscribe))


def test_one_consumer_is_left_to_the_owner_that_its_client_can_reach():
    scene = Scene()
    assert scene.place() == OWNER
    assert not scene.lookups[0].HasField("advertised_listener_name")
    scene.client.listener = "outside"
    assert scene.place() == OWNER
    assert scene.lookups[1].advertised_listener_name == "outside"
    scene.client.tls = True
    assert scene.place() is None, "the owner has no address with TLS"


@pytest.mark.parametrize(
    "change",
    [
        {"bindings": Bindings((ALWAYS,))},
        {"bindings": Bindings((CHEAPER, ALWAYS))},
        {"subscriptions": {"t": {"consumers": [{}, {}]}, "u": {"consumers": [{}]}, "v": {"consumers": [{}]}}},
        {"subscriptions": {"s": {"consumers": [{"metadata": {POOL_KEY: "p"}}]}}},
        {"unanswered": OwnerUnavailableError("no")},
        {"unanswered": OwnerRefusedError(ServerError.MetadataError, "no such listener")},
    ],
)
def test_the_pool_serves_whatever_is_not_cheaper_at_the_owner(change):
    scene = Scene()
    vars(scene).update(change)
    assert scene.place() is None


@pytest.mark.parametrize(
    "placement", [{"bound": False}, {"cursor": CursorPlace.POOL}, {"request": LocalRequest.EXISTING}]
)
def test_the_pool_keeps_what_it_alone_can_serve(placement):
    assert Scene().place(**placement) is None


def test_a_reader_stays_because_a_redirect_may_make_it_begin_at_the_end():
    scene = Scene()
    scene.subscribe.durable = False
    assert scene.place() is None


def test_a_client_that_does_not_follow_redirects_or_came_back_from_one_stays():
    scene = Scene()
    scene.client.client_version = "Pulsar-Java-2.11.0"
    assert scene.place() is None
    scene.client.client_version = "Pulsar-Java-4.0.8"
    key = (scene.client.address, scene.subscribe.topic, "s", "")
    assert scene.redirects.allow(scene.client.client_version, key, time.monotonic())
    assert scene.place() is None


def test_consumers_that_come_at_once_see_each_other():
    scene, found = Scene(), []
    for name in ("s", "t", "u", "v", "w", "s"):
        scene.subscribe.subscription = name
        found.append(scene.place() is None)
    assert found == [False, False, False, True, True, False]


def test_no_subscription_comes_to_the_owner_that_the_pool_keeps():
    scene = Scene()
    scene.refusal = OwnerRefusedError(ServerError.NotAllowedError, "a local cursor")
    with pytest.raises(RelayError, match="a local cursor"):
        scene.place()


@pytest.mark.parametrize(
    ("change", "may"),
    [
        ({}, True),
        ({"bound": False}, False),
        ({"movable": False}, False),
        ({"info": SimpleNamespace(name="s", durable=False)}, False),
    ],
)
def test_a_served_consumer_may_go_back_if_it_could_have_been_left_there(change, may):
    scene = Scene()
    consumer = SimpleNamespace(connection=scene.client, topic=TOPIC, bound=True, movable=True)
    consumer.info = SimpleNamespace(name="s", durable=True)
    vars(consumer).update(change)
    assert may_be_placed(consumer) is may
