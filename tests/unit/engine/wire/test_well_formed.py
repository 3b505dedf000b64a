"""Commands for which a stock broker closes the connection."""

from pathlib import Path

import pytest
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandGetTopicsOfNamespace,
    CommandSubscribe,
    CommandWatchTopicList,
    MessageIdData,
)
from readonly_engine.wire.well_formed import _REQUIRED, check_command

from longtests.hostile.frames import CLIENT_COMMANDS, SERVER_COMMANDS, make_command

RECORDED = [
    path.stem for path in sorted((Path(__file__).parents[1] / "golden").glob("client_*.txt")) if "pong" not in path.stem
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


@pytest.mark.parametrize("damaged", [None, 0, 150, 299])
@pytest.mark.parametrize("count", [1, 100, 101, 300])
def test_each_of_many_parts_must_be_complete(count, damaged):
    """Many are checked in another way than a few."""
    parts = [MessageIdData(ledger_id=1, entry_id=number) for number in range(count)]
    parts[-1].first_chunk_message_id.ledger_id = parts[-1].first_chunk_message_id.entry_id = 0
    command = BaseCommand(
        type=BaseCommand.ACK, ack=CommandAck(consumer_id=1, ack_type=CommandAck.Individual, message_id=parts)
    )
    check_command(command)
    if damaged is None:
        command.ack.message_id[-1].first_chunk_message_id.ClearField("entry_id")
    else:
        command.ack.message_id[min(damaged, count - 1)].ClearField("entry_id")
    with pytest.raises(MalformedFrameError, match=r"ACK without message_id\."):
        check_command(command)


@pytest.mark.parametrize(
    ("command", "field"),
    [
        ("SUBSCRIBE", "metadata"),
        ("PRODUCER", "metadata"),
        ("ACK", "properties"),
        ("SUBSCRIBE", "schema.properties"),
        ("PRODUCER", "schema.properties"),
        ("GET_OR_CREATE_SCHEMA", "schema.properties"),
    ],
)
def test_a_key_that_comes_twice_would_close_the_connection_of_all_clients_to_the_owner(command, field):
    """Seen at a stock broker 4.0.8: it collects these lists in a map."""
    made = BaseCommand.FromString(make_command(command, "t"))
    part = body_of(made)
    *outer, name = field.split(".")
    for one in outer:
        part = getattr(part, one)
        part.name, part.schema_data, part.type = "s", b"", 0
    value = 1 if command == "ACK" else "v"
    items = getattr(part, name)
    items.add(key="a", value=value)
    items.add(key="b", value=value)
    check_command(made)
    items.add(key="a", value=value)
    with pytest.raises(MalformedFrameError, match=r"without .*a single value of each key"):
        check_command(made)


@pytest.mark.parametrize(("size", "well_formed"), [(0, True), (1, False), (7, False), (8, True), (9, True)])
def test_a_schema_version_is_no_shorter_than_a_stock_broker_reads(size, well_formed):
    made = BaseCommand.FromString(make_command("GET_SCHEMA", "t"))
    made.get_schema.schema_version = bytes(size)
    if well_formed:
        check_command(made)
    else:
        with pytest.raises(MalformedFrameError, match=f"a schema version of {size} bytes; expected 8"):
            check_command(made)


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
