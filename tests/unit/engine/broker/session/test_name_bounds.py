"""Names of topics and subscriptions at their bound, and above it."""

from operator import attrgetter
from types import SimpleNamespace

import pytest
from readonly_engine.broker.session import connection
from readonly_engine.broker.session.connection import ClientConnection
from readonly_engine.broker.session.idle import IdleClock
from readonly_engine.broker.session.name_bounds import MAX_ITEMS, MAX_NAME_BYTES, name_error
from readonly_engine.broker.session.subscribe_refusals import SubscribeRefusals
from readonly_engine.wire.client_commands import CLIENT_COMMANDS
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, KeyValue, ServerError

from longtests.hostile.frames import make_command

NAMES = {kind: command.names for kind, command in CLIENT_COMMANDS.items() if command.names}
LISTS = {kind: command.lists for kind, command in CLIENT_COMMANDS.items() if command.lists}
EACH = [
    pytest.param(kind, field, id=f"{BaseCommand.Type.Name(kind)}-{field}") for kind in NAMES for field in NAMES[kind]
]
NAMESPACE = "t/" + "n" * (MAX_NAME_BYTES - 2)
ANSWERS = {
    BaseCommand.LOOKUP: BaseCommand.LOOKUP_RESPONSE,
    BaseCommand.PARTITIONED_METADATA: BaseCommand.PARTITIONED_METADATA_RESPONSE,
}


def command_with(kind, field, name):
    command = BaseCommand.FromString(make_command(BaseCommand.Type.Name(kind), "t"))
    body_of(command).request_id = 7
    setattr(body_of(command), field, name)
    return command


@pytest.mark.parametrize(("kind", "field"), EACH)
def test_a_name_at_the_bound_is_accepted_and_a_longer_one_is_not(kind, field):
    what = {
        "consumer_name": "consumer",
        "producer_name": "producer",
        "initial_subscription_name": "initial subscription",
    }.get(field, field)
    code = ServerError.InvalidTopicName if field == "topic" else ServerError.NotAllowedError
    for character in ("n", "é"):
        longest = character * (MAX_NAME_BYTES // len(character.encode()))
        assert name_error(command_with(kind, field, longest)) is None
        error = name_error(command_with(kind, field, longest + "n"))
        assert str(error) == f"the name of the {what} has 8,193 bytes; give a name of at most 8,192 bytes"
        assert error.code == code
        assert not error.retriable


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in LISTS.items() for field in fields])
def test_a_list_at_the_bound_is_accepted_and_a_longer_one_is_not(kind, field):
    command = command_with(kind, "topic", "t")
    items = attrgetter(field)(body_of(command))
    numbers = field.endswith("ack_set")
    for _ in range(MAX_ITEMS):
        items.append(-1) if numbers else items.add()
    assert name_error(command) is None
    items.append(-1) if numbers else items.add()
    assert str(name_error(command)) == f"{field} has 2,001 items; give at most 2,000"


def test_every_list_of_a_request_has_a_bound():
    """Those of ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES have the ids of messages; those of transactions are not served."""

    def lists(message, path=()):
        for field in message.fields:
            if field.is_repeated:
                yield ".".join((*path, field.name))
            elif field.message_type is not None and field.message_type is not message:
                yield from lists(field.message_type, (*path, field.name))

    found = {}
    for kind in NAMES:
        found[kind] = set(lists(body_of(BaseCommand(type=kind)).DESCRIPTOR))
    assert {kind: fields for kind, fields in found.items() if fields} == {
        kind: {*fields} for kind, fields in LISTS.items()
    }


class Task:
    """A task that never ends."""

    def add_done_callback(self, callback):
        pass


class Client:
    """A connection whose answers are kept. Its broker counts the tasks of accepted commands."""

    def __init__(self, monkeypatch):
        self.answers, self.tasks = [], 0
        requests = SimpleNamespace(acquire=lambda _: True, release=lambda _: None)
        broker = SimpleNamespace(
            draining=False,
            subscribing=0,
            replay=None,
            subscribe_refusals=SubscribeRefusals(),
            spawn=self.spawn,
            requests=requests,
            idle=IdleClock(0.0),
        )
        self.connection = ClientConnection(broker)
        monkeypatch.setattr(
            ClientConnection, "send", lambda _, frame: self.answers.append(decode_command(frame[4:])[0])
        )

    def spawn(self, coroutine):
        coroutine.close()
        self.tasks += 1
        return Task()

    def sends(self, command):
        self.connection.data_received(encode_command(command))


@pytest.mark.parametrize(("kind", "field"), EACH)
def test_a_connection_refuses_a_long_name_in_the_response_of_its_command(monkeypatch, kind, field):
    client = Client(monkeypatch)
    client.connection.connected = True
    client.connection._splitter.max_frame_bytes = 6 << 20
    client.sends(command_with(kind, field, "t/" + "n" * ((5 << 20) - 2)))
    (answer,) = client.answers
    assert client.tasks == 0
    assert answer.type == ANSWERS.get(kind, BaseCommand.ERROR)
    assert body_of(answer).request_id == 7
    assert "has 5,242,880 bytes" in body_of(answer).message
    assert answer.ByteSize() < 200  # it does not repeat the name
    assert client.connection.services.subscribe_refusals.by_error.total() == (kind == BaseCommand.SUBSCRIBE)
    client.sends(command_with(kind, field, NAMESPACE if field == "namespace" else "n" * MAX_NAME_BYTES))
    assert (client.tasks, len(client.answers)) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "field", "items", "text"),
    [
        (BaseCommand.SUBSCRIBE, "metadata", 50_000, "metadata has 50,000 items; give at most 2,000"),
        (
            BaseCommand.SUBSCRIBE,
            "metadata",
            500_000,
            "the lists of SUBSCRIBE take 3,000,003 bytes; send at most 524,288",
        ),
        (BaseCommand.LOOKUP, "properties", 500_000, "the lists of LOOKUP take 3,000,0"),
    ],
)
def test_a_connection_refuses_long_lists_before_it_checks_their_items(monkeypatch, kind, field, items, text):
    client = Client(monkeypatch)
    client.connection.connected = True
    client.connection._splitter.max_frame_bytes = 6 << 20
    command = command_with(kind, "topic", "t")
    getattr(body_of(command), field).extend([KeyValue(key="", value="")] * items)
    monkeypatch.setattr(connection, "check_command", pytest.fail)
    client.sends(command)
    (answer,) = client.answers
    assert (client.tasks, answer.type) == (0, ANSWERS.get(kind, BaseCommand.ERROR))
    assert body_of(answer).request_id == 7
    assert text in body_of(answer).message
    assert client.connection.services.subscribe_refusals.by_error.total() == (kind == BaseCommand.SUBSCRIBE)


def test_a_client_that_is_not_authenticated_gets_no_such_answer(monkeypatch, caplog):
    client = Client(monkeypatch)
    client.connection.services.half_open = SimpleNamespace(set_buffered=lambda *_: None)
    client.sends(command_with(BaseCommand.LOOKUP, "topic", "n" * (MAX_NAME_BYTES + 1)))
    assert client.answers == []
    assert "LOOKUP before it was connected" in caplog.text


def test_every_command_of_clients_with_a_topic_or_namespace_has_a_bound():
    kinds = {kind.replace("_", "").lower(): number for kind, number in BaseCommand.Type.items()}
    names = {"lookuptopic": "lookup", "partitionmetadata": "partitionedmetadata"}
    found = set()
    for field in BaseCommand.DESCRIPTOR.fields:
        message = field.message_type
        if message is not None and {"topic", "namespace"} & set(message.fields_by_name):
            key = field.name.replace("_", "").lower()
            found.add(kinds[names.get(key, key)])
    assert found == set(NAMES)
