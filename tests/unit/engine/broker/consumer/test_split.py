"""Members of a split subscription at the coordinator's broker, and a client's consumer of one."""

from types import SimpleNamespace

import pytest
from readonly_engine.broker.consumer.relay_marks import mark_member, split_member
from readonly_engine.broker.consumer.route import CursorPlace, Placement
from readonly_engine.broker.consumer.split import MemberConsumer, SplitConsumer, _check_split
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.split.codec import decode_grant, encode_report
from readonly_engine.broker.split.keys import KeyPolicy
from readonly_engine.broker.split.leases import Grant, Report, Run
from readonly_engine.broker.split.subscription import SplitSubscription
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.topic.position import Position
from readonly_engine.wire.acks import decode_plain_ack
from readonly_engine.wire.commands import decode_command, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo
from readonly_engine.wire.well_formed import check_command

TOPIC, NAME = parse_topic_name("orders"), "pulsar://there:6650"
REPORT = Report(7, 1, 0, 10, 0, 0, (Run(3, 0, 4),))


class Scene:
    """A coordinator, and the connection of a member."""

    def __init__(self, *, room=True, here=True):
        self.calls, self.frames, self.room, self.here = [], [], room, here
        services = SimpleNamespace(
            owners=None,
            passthrough=SimpleNamespace(pool="p"),
            splits=self,
            exclusives=self,
            limits=self,
            spawn=self.close,
        )
        client = SimpleNamespace(
            services=services, identity=ANONYMOUS, send=self.frames.append, drop_consumer=lambda one: one.unregister()
        )
        subscribe = CommandSubscribe(topic=str(TOPIC), subscription="s", sub_type=CommandSubscribe.Shared, durable=True)
        placement = Placement(TOPIC, SubscribeInfo.of(subscribe), False, CursorPlace.OWNER)
        subscribe.consumer_id = 5
        self.member = MemberConsumer(client, placement, subscribe, NAME)

    def coordinator(self, key, name, subscribe):
        if not self.here:
            raise OwnerUnavailableError("it is not here")
        assert (key, name, subscribe.sub_type) == (ClaimKey(TOPIC, "s"), NAME, CommandSubscribe.Shared)
        return self

    def join(self, name, link):
        self.calls.append(("joined", link is self.member))
        return self.room

    def reported(self, name, link, report):
        self.calls.append(report)

    def leave(self, *_):
        self.calls.append("left")

    def close(self, coroutine):
        coroutine.close()


def ack_of(*keys, ids=0):
    ack = CommandAck(consumer_id=5, ack_type=CommandAck.Individual)
    for key in keys:
        ack.properties.add(key=key, value=0)
    for entry_id in range(ids):
        ack.message_id.add(ledger_id=1, entry_id=entry_id)
    return BaseCommand(type=BaseCommand.ACK, ack=ack)


def test_a_report_arrives_as_the_ack_that_it_is_sent_as():
    scene = Scene()
    scene.member.on_answered()
    frame = encode_command(ack_of(encode_report(REPORT)))[LENGTH_BYTES:]
    assert decode_plain_ack(frame) is None
    command, _ = decode_command(frame)
    check_command(command)
    scene.member.ack(command)
    assert scene.calls == [("joined", True), REPORT]


@pytest.mark.parametrize(
    "command", [ack_of(), ack_of("x"), ack_of(encode_report(REPORT), "y"), ack_of(encode_report(REPORT), ids=1)]
)
def test_an_ack_that_is_no_report_is_malformed(command):
    scene = Scene()
    scene.member.on_answered()
    with pytest.raises(MalformedFrameError):
        scene.member.ack(command)


def test_a_grant_is_sent_under_the_members_consumer():
    scene = Scene()
    grant = Grant(7, 1, 5.0, Position(3, 4), (Run(3, 5, 9),))
    scene.member.grant(grant)
    command, end = decode_command(scene.frames[0][LENGTH_BYTES:])
    assert command.message.consumer_id == 5
    assert decode_grant(scene.frames[0][LENGTH_BYTES + end :]) == grant


@pytest.mark.parametrize("broken", [{"room": False}, {"here": False}])
def test_a_member_that_cannot_join_is_closed(broken):
    scene = Scene(**broken)
    scene.member.on_answered()
    assert scene.member.unregistered
    command, _ = decode_command(scene.frames[0][LENGTH_BYTES:])
    assert command.type == BaseCommand.CLOSE_CONSUMER


async def test_a_member_stays_at_a_broker_that_drains_until_the_coordinator_ends_it():
    scene = Scene()
    scene.member.on_answered()
    await scene.member.detach()
    assert not scene.member.unregistered
    scene.member.end("the coordinator has ended")
    assert scene.member.unregistered


def test_a_member_is_known_by_its_marks():
    subscribe = CommandSubscribe()
    assert split_member(subscribe) is None
    mark_member(subscribe, NAME, "1")
    assert split_member(subscribe) == (NAME, "1")


def test_a_consumer_of_a_split_subscription_joins_no_other():
    with pytest.raises(OwnerUnavailableError, match="alone on this broker leave; try again"):
        _check_split(
            None, ClaimKey(TOPIC, "s"), CommandSubscribe.Shared, KeyPolicy(), None, SimpleNamespace(split=False)
        )


def test_a_consumer_of_another_holder_joins_no_other():
    subscription = object.__new__(SplitSubscription)
    subscription.kind, subscription.holder, subscription.policy = CommandSubscribe.Shared, NAME, KeyPolicy()
    for holder in (None, "", "pulsar://elsewhere:6650"):
        with pytest.raises(OwnerUnavailableError, match="with its former cursor leave; try again"):
            _check_split(None, ClaimKey(TOPIC, "s"), CommandSubscribe.Shared, KeyPolicy(), holder, subscription)


def test_state_of_batches_is_never_that_of_one_broker():
    assert not SplitConsumer._exclusively_served(None, None, None)
