"""Routing of an owner's commands to consumers, producers and watchers."""

import pytest
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.handlers import ConnectionHandlers
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandTopicMigrated, ServerError


class Handler:
    def __init__(self):
        self.commands, self.lost = [], 0

    def on_command(self, command, payload):
        self.commands.append((command.type, payload))

    def on_connection_lost(self):
        self.lost += 1


def command(name, **fields):
    made = BaseCommand(type=BaseCommand.Type.Value(name))
    for field, value in fields.items():
        setattr(body_of(made), field, value)
    return made


CONSUMER = [
    *(command(name, consumer_id=1) for name in ("MESSAGE", "CLOSE_CONSUMER", "ACTIVE_CONSUMER_CHANGE")),
    command("REACHED_END_OF_TOPIC", consumer_id=1),
    command("TOPIC_MIGRATED", resource_id=1, resource_type=CommandTopicMigrated.Consumer),
]
PRODUCER = [
    *(command(name, producer_id=1) for name in ("SEND_RECEIPT", "SEND_ERROR", "CLOSE_PRODUCER")),
    command("TOPIC_MIGRATED", resource_id=1, resource_type=CommandTopicMigrated.Producer),
]
WATCHER = [command("WATCH_TOPIC_UPDATE", watcher_id=1)]


@pytest.fixture
def handlers():
    return ConnectionHandlers()


@pytest.fixture
def present(handlers):
    """A consumer, a producer and a watcher, each with the id 1."""
    consumer, producer, watcher = Handler(), Handler(), Handler()
    assert handlers.add_consumer(consumer) == 1
    handlers.add_producer(1, producer)
    assert handlers.add_watcher(watcher) == 1
    return consumer, producer, watcher


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["consumer", "producer", "watcher"])
def test_a_command_goes_to_the_handler_of_its_kind_and_id(handlers, present, kind):
    commands = (CONSUMER, PRODUCER, WATCHER)[kind]
    assert all(handlers.deliver(one, b"payload") for one in commands)
    assert present[kind].commands == [(one.type, b"payload") for one in commands]
    assert not any(one.commands for one in present if one is not present[kind])


def test_a_command_for_an_unknown_id_is_dropped(handlers):
    assert all(handlers.deliver(one, b"") for one in [*CONSUMER, *PRODUCER, *WATCHER])


def test_a_command_of_another_type_is_not_delivered(handlers, present):
    assert not handlers.deliver(command("PING"), b"")


def test_ids_are_not_reused(handlers, present):
    handlers.remove_consumer(1)
    handlers.remove_consumer(1)
    handlers.remove_watcher(1)
    assert (handlers.add_consumer(Handler()), handlers.add_watcher(Handler())) == (2, 2)
    assert (handlers.has_consumer(1), handlers.has_consumer(2)) == (False, True)


def test_a_producer_does_not_remove_another_with_its_id(handlers, present):
    _, first, _ = present
    second = Handler()
    handlers.add_producer(1, second)
    handlers.remove_producer(1, first)
    handlers.deliver(PRODUCER[0], b"")
    assert (len(first.commands), len(second.commands)) == (0, 1)
    handlers.remove_producer(1, second)
    handlers.deliver(PRODUCER[0], b"")
    assert len(second.commands) == 1


def test_every_handler_is_taken_once(handlers, present):
    assert handlers
    assert handlers.take_all() == [*present]
    assert handlers.take_all() == []
    assert not handlers


def test_errors_that_a_client_must_solve_are_not_retriable():
    assert OwnerUnavailableError("no answer").retriable
    assert OwnerRefusedError(ServerError.MetadataError, "").retriable
    assert not OwnerRefusedError(ServerError.ConsumerBusy, "").retriable
