import asyncio

import pytest
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.key_shared import LookAhead
from readonly_engine.broker.dispatch.make import DispatchSettings, make_consumer_state, make_dispatcher
from readonly_engine.broker.dispatch.multiple import UnackedLimits
from readonly_engine.broker.subscription.owner_policies import (
    OwnerPolicies,
    batch_acks_enabled,
    look_ahead_of,
    settings_of,
)
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST
from readonly_engine.wire.commands import NO_EPOCH
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMode

from tests.support.played_admin import PlayedAdmin


def test_policies_in_force_are_taken():
    shown = {"tickTime": 1000, "active": False, "maxDeliveryDelayInMillis": 0}
    assert settings_of(7, 0, shown, batch_acks=True) == DispatchSettings(
        UnackedLimits(7, 0), delayed=False, batch_acks=True
    )


@pytest.mark.parametrize("unknown", [None, "7", True, {}])
def test_what_is_not_known_is_as_in_a_stock_broker(unknown):
    assert settings_of(unknown, unknown, unknown, batch_acks=False) == DispatchSettings()
    assert DispatchSettings() == DispatchSettings(UnackedLimits(50_000, 200_000), delayed=True, batch_acks=False)


@pytest.mark.parametrize(
    ("value", "on"), [("true", True), ("True", True), (True, True), ("false", False), (None, False)]
)
def test_batch_acks_are_on_only_where_the_brokers_say_so(value, on):
    assert batch_acks_enabled({"acknowledgmentAtBatchIndexLevelEnabled": value}) == on
    assert not batch_acks_enabled({})


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ({}, LookAhead(2000, 20_000)),
        ({"PerConsumer": "4000", "PerSubscription": "40000"}, LookAhead(4000, 40_000)),
        ({"PerConsumer": 0, "PerSubscription": None}, LookAhead(0, 20_000)),
    ],
)
def test_key_shared_looks_ahead_as_far_as_the_brokers(configured, expected):
    configuration = {f"keySharedLookAheadMsgInReplayThreshold{name}": value for name, value in configured.items()}
    assert look_ahead_of(configuration) == expected


def test_the_settings_of_a_subscription_have_the_brokers_look_ahead():
    name = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
    brokers = PlayedAdmin(configuration={name: "4000"}, policy=None, extent=OwnerUnavailableError("not now"))
    settings = asyncio.run(
        OwnerPolicies(brokers).of(parse_topic_name("persistent://a/b/c"), CommandSubscribe.Key_Shared)
    )
    assert settings == DispatchSettings(look_ahead=LookAhead(4000, 20_000))


@pytest.mark.parametrize(
    ("configuration", "name"), [({"clusterName": "one"}, "one"), ({}, ""), ({"clusterName": None}, "")]
)
async def test_the_name_of_the_cluster_is_known_from_the_brokers_configuration(configuration, name):
    policies = OwnerPolicies(PlayedAdmin(configuration=configuration))
    assert policies.cluster_name == "", "nothing is asked for it"
    await policies.configuration()
    assert policies.cluster_name == name


async def test_that_brokers_do_not_authorize_counts_only_while_they_say_so(monkeypatch):
    """After authorization was turned on they may refuse this question to a role that is not a super-user."""

    refusal = OwnerUnavailableError("not for this role")
    answers = [{"authorizationEnabled": "false"}, refusal, {"authorizationEnabled": "true"}, refusal]
    loop, passed = asyncio.get_running_loop(), 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed)
    settings = OwnerPolicies(PlayedAdmin(configuration=lambda: answers.pop(0)))
    found = []
    for seconds in (0.0, 55.0, 65.0, 180.0, 300.0):
        passed = seconds
        found.append(await settings.authorizes())
    assert found == [False, False, None, True, True]
    assert not answers


async def test_those_who_wait_for_brokers_that_do_not_answer_do_not_ask_one_after_the_other():
    loop = asyncio.get_running_loop()
    passed = asked = 0
    real = loop.time

    class Brokers:
        async def configuration(self):
            nonlocal passed, asked
            asked += 1
            await asyncio.sleep(0)
            passed += 10
            raise OwnerUnavailableError("no answer in time")

    loop.time = lambda: real() + passed
    settings = OwnerPolicies(Brokers())
    assert await asyncio.gather(*(settings.transactions(5) for _ in range(3))) == [None] * 3
    assert asked == 1
    passed += 5
    await settings.transactions(5)
    assert asked == 2


def test_consumers_of_a_subscription_that_is_not_durable_are_not_blocked(topic):
    cursor = CursorReplica(topic.chain, EARLIEST)
    for durable, blocked in [(True, True), (False, False)]:
        subscribe = CommandSubscribe(sub_type=CommandSubscribe.Shared, durable=durable)
        dispatcher = make_dispatcher(subscribe, topic.chain, cursor, DispatchSettings(UnackedLimits(1, 0)))
        receiver = make_consumer_state(subscribe, writable=True)
        receiver.permits = 5
        dispatcher.add(receiver)
        topic.write()
        dispatcher.dispatch(topic.read(*dispatcher.next_read(0)), 0)
        assert receiver.blocked == blocked


def test_a_reader_of_some_keys_gets_only_these_and_acks_none_of_the_others(topic):
    subscribe = CommandSubscribe(sub_type=CommandSubscribe.Exclusive, consumer_name="reader", consumer_epoch=3)
    subscribe.key_shared_meta.key_shared_mode = KeySharedMode.STICKY
    subscribe.key_shared_meta.hash_ranges.add(start=0, end=32767)
    cursor = CursorReplica(topic.chain, EARLIEST)
    dispatcher = make_dispatcher(subscribe, topic.chain, cursor, DispatchSettings())
    receiver = make_consumer_state(subscribe, writable=True)
    receiver.permits = 100
    dispatcher.add(receiver)
    for number in range(40):
        topic.write(key=f"key-{number}")
    got = dispatcher.dispatch(topic.read(*dispatcher.next_read(0)), 0)
    assert {d.entry.position for d in got} == {e.position for e in topic.entries if e.sticky_hash % 65536 < 32768}
    assert 0 < len(got) < 40
    assert cursor.mark_delete == EARLIEST
    assert receiver.epoch == 3


def test_epochs_are_of_exclusive_and_failover_only():
    subscribe = CommandSubscribe(sub_type=CommandSubscribe.Shared, consumer_epoch=3, priority_level=2)
    receiver = make_consumer_state(subscribe, writable=False)
    assert (receiver.epoch, receiver.priority, receiver.ready) == (NO_EPOCH, 2, False)
