"""`pulsar-readonly subscriptions`: local subscriptions listed, moved, deleted, imported and exported; and mistakes."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulsar
import pytest
from pulsar import PulsarException

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import SHARED, TESTS, quiet_client
from tests.support.subscriptions_tool import COMMAND, connections_of
from tests.support.waiting import wait_until

LIMIT_S = 120
RECEIVE_MS = 20_000
QUIET_MS = 1_500
LOCAL = ("--topics", TESTS, "--cursors", "local", "--cursor-partitions", "4")
GUARD = "pulsar-readonly-guard-"


@dataclass
class Tool:
    """Runs the command.

    Attributes:
        connections: its options.
        error: what the last run printed on standard error.
    """

    connections: list[str]
    error: str = ""

    def run(self, *words: str, status: int = 0) -> str:
        command = [*COMMAND, *words, *self.connections]
        done = subprocess.run(command, env=dict(os.environ), capture_output=True, timeout=LIMIT_S, check=False)
        self.error = done.stderr.decode()
        assert done.returncode == status, f"{done.returncode}: {done.stdout.decode()}{self.error}"
        return done.stdout.decode()

    def fails(self, *words: str) -> str:
        """The one line of the error."""
        assert self.run(*words, status=1) == ""
        assert self.error.startswith("pulsar-readonly subscriptions: "), self.error
        assert self.error.count("\n") == 1, self.error
        return self.error

    def ls(self, topic: str) -> dict[str, Any]:
        return json.loads(self.run("ls", topic, "-o", "json"))["subscriptions"]


def tool_of(pulsar_: Endpoints, pool: Pool, service_url: str = "") -> Tool:
    return Tool(connections_of(pulsar_, pool.name, service_url or pool.url))


@pytest.fixture
def tool(pulsar: Endpoints, local_pool: Pool) -> Tool:
    return tool_of(pulsar, local_pool)


def subscribe(client: pulsar.Client, topic: str, name: str = "s", **options: Any) -> pulsar.Consumer:
    options.setdefault("initial_position", pulsar.InitialPosition.Earliest)
    return client.subscribe(topic, name, **options)


def take(consumer: pulsar.Consumer, count: int, *acked: int) -> list[pulsar.MessageId]:
    """Receive numbers, and ack some of them."""
    found = [consumer.receive(RECEIVE_MS) for _ in range(count)]
    for message in found:
        if int(message.data()) in acked:
            consumer.acknowledge(message)
    return [message.message_id() for message in found]


def rest(consumer: pulsar.Consumer) -> list[int]:
    found = []
    while True:
        try:
            found.append(consumer.receive(QUIET_MS))
        except pulsar.Timeout:
            return numbers_of(found)


def left_at(client: pulsar.Client, topic: str, name: str = "s") -> list[int]:
    """The messages that a subscription gets."""
    consumer = subscribe(client, topic, name)
    found = rest(consumer)
    consumer.close()
    return found


def at_owner(admin: PulsarAdmin, topic: str) -> set[str]:
    """The durable subscriptions at the owner, without guards."""
    stats = admin.stats(topic)["subscriptions"]
    return {name for name, one in stats.items() if one["isDurable"] and not name.startswith(GUARD)}


def text_of(one: pulsar.MessageId) -> str:
    return f"{one.ledger_id()}:{one.entry_id()}"


def wait_acked(tool: Tool, topic: str, ranges: int, name: str = "s") -> dict[str, Any]:
    """Wait until acks are stored."""
    wait_until(lambda: tool.ls(topic)[name]["totalNonContiguousDeletedMessagesRange"] == ranges, 30)
    return tool.ls(topic)[name]


@pytest.mark.nightly
def test_ls_and_show(tool: Tool, local_client: pulsar.Client, pulsar_client: pulsar.Client, topic: str) -> None:
    ids = publish_numbers(pulsar_client, topic, range(10), batching_enabled=False)
    consumers = [subscribe(local_client, topic, name) for name in ("b", "a", "\x1b[31mred")]
    take(consumers[0], 10, 0, 1, 4, 7, 8)
    one = wait_acked(tool, topic, 2, "b")
    assert list(tool.ls(topic)) == ["\x1b[31mred", "a", "b"]
    assert one["markDeletePosition"] == text_of(ids[1])
    assert one["individuallyDeletedMessages"] == (
        f"[({text_of(ids[3])}..{text_of(ids[4])}],({text_of(ids[6])}..{text_of(ids[8])}]]"
    )
    assert one["msgBacklog"] == 5
    assert one["subscriptionProperties"] == {}
    assert one["createdTimestamp"].endswith("Z")
    shown = json.loads(tool.run("show", topic, "b", "-o", "json"))
    assert shown == {"topic": topic, "subscription": "b", **one}
    text = tool.run("show", topic, "b")
    assert text.startswith(f"{topic}\n  subscription  b\n  mark-delete   {text_of(ids[1])}\n")
    table = tool.run("ls", topic)
    assert "\x1b" not in table
    assert len(table.splitlines()) == 5
    assert f"the pool keeps no subscription c of {topic}" in tool.fails("show", topic, "c")


@pytest.mark.nightly
def test_partitions(
    tool: Tool, local_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    admin.create_partitioned_topic(topic, 2)
    publish_numbers(pulsar_client, topic, range(10), batching_enabled=False)
    subscribe(local_client, topic).close()
    names = [f"{topic}-partition-{number}" for number in range(2)]
    assert [one["topic"] for one in json.loads(tool.run("ls", topic, "-o", "json"))] == names
    assert [one["subscription"] for one in json.loads(tool.run("show", topic, "s", "-o", "json"))] == ["s", "s"]
    assert "a position belongs to one partition" in tool.fails("seek", topic, "s", "--to", "1:1")
    assert tool.run("seek", topic, "s", "--to", "latest").count("moved") == 2
    assert left_at(local_client, topic) == []
    assert tool.run("export", topic, "s") == "".join(f"{name}: exported\n" for name in names)
    assert [at_owner(admin, name) for name in names] == [{"s"}, {"s"}]
    assert tool.run("import", topic, "s").count("imported") == 2
    assert tool.run("seek", names[0], "s", "--to", "earliest").count("moved") == 1
    assert len(left_at(local_client, topic)) == 5
    assert tool.run("delete", topic, "s") == "".join(f"{name}: deleted\n" for name in names)


@pytest.mark.nightly
def test_a_subscription_with_consumers_is_moved_by_force_only(
    tool: Tool, local_client: pulsar.Client, pulsar_client: pulsar.Client, topic: str
) -> None:
    ids = publish_numbers(pulsar_client, topic, range(10), batching_enabled=False)
    shared = [subscribe(local_client, topic, consumer_type=SHARED) for _ in range(2)]
    alone = subscribe(local_client, topic, "alone")
    assert sorted(number for one in shared for number in rest(one)) == list(range(10))
    assert "or use --force" in tool.fails("seek", topic, "s", "--to", "latest")
    tool.run("seek", topic, "s", "--to", text_of(ids[6]), "--force")
    assert sorted(number for one in shared for number in rest(one)) == [6, 7, 8, 9]
    assert rest(alone) == list(range(10))
    tool.run("seek", topic, "alone", "--to", text_of(ids[8]), "--force")
    assert rest(alone) == [8, 9]


def test_seek_and_delete(
    tool: Tool, local_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    ids = publish_numbers(pulsar_client, topic, range(10), batching_enabled=False)
    consumer = subscribe(local_client, topic)
    take(consumer, 10, *range(10))
    assert "the subscription has consumers (Exclusive consumer is already connected)" in tool.fails(
        "seek", topic, "s", "--to", "earliest"
    )
    assert "or use --force" in tool.fails("delete", topic, "s")
    consumer.close()
    for where, left in (
        ("earliest", list(range(10))),
        (text_of(ids[4]), [4, 5, 6, 7, 8, 9]),
        ("latest", []),
        ("2001-01-01T00:00:00Z", list(range(10))),
        ("1h", list(range(10))),
    ):
        assert "moved, mark-delete position" in tool.run("seek", topic, "s", "--to", where)
        assert left_at(local_client, topic) == left, where
    assert tool.run("delete", topic, "s") == f"{topic}: deleted\n"
    assert tool.ls(topic) == {}
    for words in (("seek", topic, "s", "--to", "earliest"), ("delete", topic, "s"), ("export", topic, "s")):
        assert f"the pool keeps no subscription s of {topic}" in tool.fails(*words)
    assert tool.ls(topic) == {}
    assert at_owner(admin, topic) == set()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [SHARED, pulsar.ConsumerType.Failover, pulsar.ConsumerType.Exclusive])
def test_forced_delete(
    tool: Tool, local_pool: Pool, pulsar_client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    publish_numbers(pulsar_client, topic, range(3))
    client = quiet_client(local_pool.url)
    consumer = subscribe(client, topic, consumer_type=kind)
    take(consumer, 3, 0, 1, 2)
    try:
        assert tool.run("delete", topic, "s", "--force") == f"{topic}: deleted, and its consumers closed\n"
        assert len(take(consumer, 3)) == 3  # the stock client has subscribed again, and so made a new subscription
    finally:
        client.close()


@pytest.mark.nightly
def test_import_and_export(
    tool: Tool, local_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    publish_numbers(pulsar_client, topic, range(250), batching_enabled=False)  # three ledgers
    theirs = subscribe(pulsar_client, topic)
    acked = {*range(60), *range(90, 120), 199, 201, *range(240, 245)}
    take(theirs, 250, *acked)
    assert f"the owner of {topic} has consumers of subscription s: close them" in tool.fails("import", topic, "s")
    assert tool.ls(topic) == {}
    theirs.close()
    left = [number for number in range(250) if number not in acked]
    with pytest.raises(PulsarException, match="NotAllowed"):
        subscribe(local_client, topic)
    assert tool.run("import", topic, "s").startswith(f"{topic}: imported, mark-delete position ")
    assert at_owner(admin, topic) == set()
    assert tool.run("import", topic, "s").startswith(f"{topic}: already imported")
    consumer = subscribe(local_client, topic)
    ids = take(consumer, len(left), 60, 121)
    assert f"the pool has consumers of subscription s of {topic}: close them" in tool.fails("export", topic, "s")
    consumer.close()
    left = [number for number in left if number not in {60, 121}]
    assert tool.run("export", topic, "s") == f"{topic}: exported\n"
    assert tool.ls(topic) == {}
    assert at_owner(admin, topic) == {"s"}
    assert tool.run("export", topic, "s") == f"{topic}: already at the owner\n"
    assert left_at(pulsar_client, topic) == left
    assert len(ids) == 250 - len(acked)
    wait_until(lambda: not any(name.startswith(GUARD) for name in admin.stats(topic)["subscriptions"]), 30)


@pytest.mark.nightly
def test_an_export_at_the_begin_and_of_batches(
    tool: Tool, local_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    publish_numbers(pulsar_client, topic, range(20), batching_enabled=True, batching_max_messages=5)
    consumer = subscribe(local_client, topic, consumer_type=SHARED, batch_index_ack_enabled=True)
    take(consumer, 20, 2, 3, *range(10, 15))
    wait_acked(tool, topic, 1)
    consumer.close()
    found = json.loads(tool.run("show", topic, "s", "-o", "json"))
    assert list(found["unackedBatchIndexes"].values()) == [[0, 1, 4]]
    tool.run("export", topic, "s")
    left = left_at(pulsar_client, topic)
    assert [number for number in left if number not in {2, 3}] == [0, 1, 4, *range(5, 10), *range(15, 20)]
    assert at_owner(admin, topic) == {"s"}


@pytest.mark.nightly
def test_a_pool_that_keeps_no_cursors(
    pulsar: Endpoints,
    pool: Pool,
    local_pool: Pool,
    local_client: pulsar.Client,
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    topic: str,
) -> None:
    publish_numbers(pulsar_client, topic, range(3))
    subscribe(pulsar_client, topic, "theirs").close()
    other = tool_of(pulsar, pool)
    assert f"the pool {pool.name} keeps no subscriptions in public/default" in other.fails("ls", topic)
    assert "run its brokers with --cursors local" in other.fails("import", topic, "theirs")
    subscribe(local_client, topic).close()
    for service_url in (pool.url, pulsar.writer_url):  # URLs of others
        wrong = tool_of(pulsar, local_pool, service_url)
        for words in (("seek", topic, "s", "--to", "latest"), ("delete", topic, "s"), ("export", topic, "s")):
            assert wrong.fails(*words)
        assert wrong.fails("import", topic, "theirs")
        assert at_owner(admin, topic) == {"theirs"}
        assert list(wrong.ls(topic)) == ["s"]
    assert left_at(local_client, topic) == [0, 1, 2]
    assert left_at(pulsar_client, topic, "theirs") == [0, 1, 2]


@pytest.mark.nightly
def test_nothing_answers(pulsar: Endpoints, local_pool: Pool, topic: str, pulsar_client: pulsar.Client) -> None:
    publish_numbers(pulsar_client, topic, range(3))
    tool = tool_of(pulsar, local_pool, "pulsar://127.0.0.1:1")
    assert "--pool-service-url pulsar://127.0.0.1:1 does not answer" in tool.fails("delete", topic, "s")
    tool.connections[3] = "http://127.0.0.1:1"
    assert "the admin API at http://127.0.0.1:1 did not answer" in tool.fails("ls", topic)
    tool.connections[-2:] = []
    tool.connections[3] = pulsar.admin_url
    assert "--pool-service-url is missing" in tool.fails("delete", topic, "s")
    tool.connections = []
    tool.run("ls", topic, status=2)
    assert "pulsar-readonly subscriptions: --service-url is missing" in tool.error


def consumers(admin: PulsarAdmin, topic: str) -> int:
    """The number of consumers of the subscription at the owner."""
    return len(admin.stats(topic)["subscriptions"].get("s", {}).get("consumers", ()))


def kill_during(pool: Pool, tool: Tool, admin: PulsarAdmin, topic: str, word: str) -> None:
    """Kill the broker and the tool while they migrate, and start the broker again."""
    command = [*COMMAND, word, topic, "s", *tool.connections]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as running:
        try:
            wait_until(lambda: consumers(admin, topic) > 0 or running.poll() is not None, LIMIT_S)
            pool.brokers[0].kill()
        finally:
            running.kill()
    pool.restart(0)
    wait_until(lambda: not consumers(admin, topic), 60)


@pytest.mark.nightly
def test_after_a_crash_a_migration_is_run_again(
    own_pool: Callable[..., Pool],
    pulsar: Endpoints,
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    topic: str,
) -> None:
    pool = own_pool(1, *LOCAL)
    publish_numbers(pulsar_client, topic, range(20), batching_enabled=False)
    theirs = subscribe(pulsar_client, topic)
    take(theirs, 20, 0, 1, 5, 6)
    theirs.close()
    left = [number for number in range(20) if number not in {0, 1, 5, 6}]
    tool = tool_of(pulsar, pool)
    kill_during(pool, tool, admin, topic, "import")
    tool.run("import", topic, "s")
    client = quiet_client(pool.url)
    assert left_at(client, topic) == left
    client.close()
    assert at_owner(admin, topic) == set()
    kill_during(pool, tool, admin, topic, "export")
    tool.run("export", topic, "s")
    assert left_at(pulsar_client, topic) == left
    assert tool.ls(topic) == {}
