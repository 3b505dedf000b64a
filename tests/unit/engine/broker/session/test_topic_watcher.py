"""A topic-list watcher between a client and a broker of the source cluster that goes away and comes back; both are scripted."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.session import topic_watcher as module
from readonly_engine.broker.session.topic_watcher import TopicWatcher
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandError,
    CommandWatchTopicList,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    ServerError,
)

from tests.support.waiting import until


class Owner:
    """A broker of the source cluster: knows topics, and fails when told to."""

    def __init__(self, *topics):
        self.topics = list(topics)
        self.watchers = {}
        self.closed = []
        self.asked = []
        self.refusal = None

    def add_watcher(self, resident):
        self.watchers[len(self.watchers) + 40] = resident
        return len(self.watchers) + 39

    def remove_watcher(self, watcher_id):
        self.watchers.pop(watcher_id, None)

    async def request(self, command):
        self.asked.append(command.watch_topic_list)
        if self.refusal is not None:
            return BaseCommand(type=BaseCommand.ERROR, error=self.refusal)
        found = CommandWatchTopicListSuccess(
            watcher_id=command.watch_topic_list.watcher_id, topics=self.topics, topics_hash="-".join(self.topics)
        )
        return BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST_SUCCESS, watch_topic_list_success=found)

    def send_request(self, command, answered):
        self.closed.append(command.watch_topic_list_close.watcher_id)
        answered(None)


class Client:
    """A client's connection, and what it is sent."""

    def __init__(self, owner):
        self.identity = None
        self.sent = []
        self.refused = []
        self.dropped = []
        self.services = SimpleNamespace(
            owners=SimpleNamespace(any_broker=self.any_broker),
            spawn=lambda work: asyncio.get_running_loop().create_task(work),
        )
        self.owner = owner

    async def any_broker(self, _identity):
        if self.owner is None:
            raise OwnerUnavailableError("nobody is there")
        return self.owner

    def send(self, frame):
        self.sent.append(decode_command(frame[4:])[0])

    def refuse(self, request_id, code, message):
        self.refused.append((request_id, code, message))

    def drop_watcher(self, watcher):
        self.dropped.append(watcher)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_S", (0.001, 0.001))


def watch(**fields):
    return CommandWatchTopicList(
        request_id=9, watcher_id=3, namespace="public/default", topics_pattern="public/default/x.*", **fields
    )


async def test_ids_are_the_clients_own_and_all_topics_are_asked_for():
    client = Client(Owner("x1", "x2"))
    await TopicWatcher(client, watch(topics_hash="old")).start()
    (answer,) = client.sent
    found = answer.watch_topic_list_success
    assert (found.request_id, found.watcher_id, list(found.topics)) == (9, 3, ["x1", "x2"])
    (asked,) = client.owner.asked
    assert (asked.watcher_id, asked.topics_hash) == (40, "")


async def test_a_client_that_has_the_topics_already_is_not_sent_them():
    client = Client(Owner("x1", "x2"))
    await TopicWatcher(client, watch(topics_hash="x1-x2")).start()
    assert not client.sent[0].watch_topic_list_success.topics


async def test_what_changed_while_the_broker_was_away_is_told():
    client = Client(Owner("x1", "x2"))
    watcher = TopicWatcher(client, watch())
    await watcher.start()
    update = CommandWatchTopicUpdate(watcher_id=40, new_topics=["x3"], deleted_topics=["x1"])
    watcher.on_command(BaseCommand(type=BaseCommand.WATCH_TOPIC_UPDATE, watch_topic_update=update), b"")
    assert client.sent[1].watch_topic_update.watcher_id == 3

    client.owner = None
    watcher.on_connection_lost()
    await asyncio.sleep(0.01)
    client.owner = Owner("x2", "x4")
    await until(lambda: len(client.sent) == 3)
    change = client.sent[2].watch_topic_update
    assert (change.watcher_id, list(change.new_topics), list(change.deleted_topics)) == (3, ["x4"], ["x3"])
    assert change.topics_hash == "x2-x4"


async def test_without_a_change_nothing_is_told_and_a_second_break_is_survived():
    client = Client(Owner("x1"))
    watcher = TopicWatcher(client, watch())
    await watcher.start()
    for _ in range(2):
        client.owner = Owner("x1")
        watcher.on_connection_lost()
        await until(lambda: client.owner.asked)
    await asyncio.sleep(0.01)
    assert len(client.sent) == 1


async def test_a_refusal_is_the_clients_to_hear():
    client = Client(Owner())
    client.owner.refusal = CommandError(error=ServerError.NotAllowedError, message="Pattern longer than maximum: 50")
    watcher = TopicWatcher(client, watch())
    await watcher.start()
    assert client.refused == [(9, ServerError.NotAllowedError, "Pattern longer than maximum: 50")]
    assert (client.dropped, client.owner.watchers) == ([watcher], {})


async def test_a_watcher_that_is_closed_is_closed_at_the_broker_too():
    client = Client(Owner("x1"))
    watcher = TopicWatcher(client, watch())
    await watcher.start()
    watcher.close()
    assert (client.owner.closed, client.owner.watchers) == ([40], {})
