"""Commands for which a stock broker closes the connection."""

from __future__ import annotations

import pytest
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandGetTopicsOfNamespace,
    CommandSubscribe,
    CommandWatchTopicList,
    KeyValue,
)
from readonly_engine.wire.well_formed import _REQUIRED, check_command

from tests.hostile.frames import CLIENT_COMMANDS, SERVER_COMMANDS, make_command

RECORDED = [
    "client_ack_cumulative",
    "client_ack_individual",
    "client_close_consumer",
    "client_close_producer",
    "client_connect",
    "client_flow",
    "client_get_last_message_id",
    "client_lookup",
    "client_partitioned_metadata",
    "client_producer",
    "client_redeliver_unacknowledged_messages",
    "client_seek",
    "client_send",
    "client_subscribe_exclusive",
    "client_subscribe_failover",
    "client_subscribe_shared",
    "client_unsubscribe",
]


@pytest.mark.parametrize("name", RECORDED)
def test_what_stock_clients_send_is_well_formed_and_nothing_required_may_be_missing(golden, name):
    command, _ = decode_command(golden(name)[4:])
    check_command(command)
    body = body_of(command)
    for field in _REQUIRED[body.DESCRIPTOR.name]:
        damaged = decode_command(golden(name)[4:])[0]
        body_of(damaged).ClearField(field)
        with pytest.raises(MalformedFrameError, match=f"without {field}"):
            check_command(damaged)


def subscribe(**fields):
    complete = {"topic": "t", "subscription": "s", "sub_type": 0, "consumer_id": 0, "request_id": 0}
    return BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=CommandSubscribe(**{**complete, **fields}))


def test_a_part_of_a_command_must_be_complete_too():
    check_command(subscribe(metadata=[KeyValue(key="k", value="v")]))
    with pytest.raises(MalformedFrameError, match=r"SUBSCRIBE without metadata\.value"):
        check_command(subscribe(metadata=[KeyValue(key="k", value="v"), KeyValue(key="k")]))


def test_a_number_that_an_enum_does_not_have_counts_as_missing():
    frame = encode_command(subscribe(sub_type=3)).replace(b"\x18\x03", b"\x18\x63")
    with pytest.raises(MalformedFrameError, match="SUBSCRIBE without sub_type"):
        check_command(decode_command(frame[4:])[0])


@pytest.mark.parametrize(
    ("namespace", "right"),
    [("public/default", True), ("a/b/c", True), ("-=:.w/x", True), ("", False), ("public", False), ("a/b/c/d", False),
     ("a/b*", False), ("ä/b", False), ("a//b", False)],
)  # fmt: skip
def test_a_namespace_that_is_none_would_cost_the_connection(namespace, right):
    asked = CommandGetTopicsOfNamespace(request_id=0, namespace=namespace)
    watched = CommandWatchTopicList(request_id=0, watcher_id=0, namespace=namespace, topics_pattern=".*")
    for command in (
        BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE, get_topics_of_namespace=asked),
        BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST, watch_topic_list=watched),
    ):
        if right:
            check_command(command)
        else:
            with pytest.raises(MalformedFrameError, match="expected TENANT/NAMESPACE"):
                check_command(command)


@pytest.mark.parametrize("name", SERVER_COMMANDS)
def test_a_command_that_only_servers_send_ends_the_connection(name):
    with pytest.raises(MalformedFrameError, match=f"{name}, which only servers send|unknown type"):
        check_command(BaseCommand.FromString(make_command(name, "orders")))


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_a_command_of_a_client_is_taken(name):
    command = BaseCommand.FromString(make_command(name, "orders"))
    try:
        check_command(command)
    except MalformedFrameError:
        assert command.type in {58, 60, 62}, "between brokers, or to a coordinator"
