"""Transactions through the pool, with the stock Java client: what it reads is what it reads at the owner."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.java_client import JavaClient
from tests.support.pulsar.raw_client import RawClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.own_stack

QUIET_MS = 700
"""A message that must not come would have come by then."""

TYPES = ["Exclusive", "Failover", "Shared"]


@pytest.fixture(scope="module")
def owner(txn_stack: PulsarCluster) -> Iterator[JavaClient]:
    with JavaClient(txn_stack, txn_stack.endpoints.writer_url) as client:
        yield client


@pytest.fixture(scope="module")
def reader(txn_stack: PulsarCluster, txn_pool: Pool) -> Iterator[JavaClient]:
    """Connected to the pool, its transaction coordinator too."""
    with JavaClient(txn_stack, txn_pool.url) as client:
        yield client


def served(pool: Pool, topic: str) -> int:
    return sum(broker.dispatched(topic) for broker in pool.brokers)


@pytest.mark.parametrize("kind", [pytest.param("Exclusive", marks=pytest.mark.nightly), "Failover", "Shared"])
def test_committed_messages_are_delivered_up_to_the_first_open_transaction(
    txn_stack, txn_pool, owner, reader, topic, kind
) -> None:
    reader.do("subscribe", "c", topic, "s", kind, "Earliest")
    for transaction in ("a", "b"):
        owner.do("begin", transaction, 300)
    for transaction, value in (("-", 0), ("a", 1), ("b", 2), ("-", 3), ("a", 4)):
        owner.do("send", topic, transaction, value)
    assert reader.values("c", 1) == ["0"]
    assert reader.do("receive", "c", QUIET_MS) == "none"
    owner.do("commit", "a")
    assert reader.values("c", 1) == ["1"], "and nothing of what lies behind the open b"
    assert reader.do("receive", "c", QUIET_MS) == "none"
    owner.do("abort", "b")
    assert reader.values("c", 2) == ["3", "4"]
    reader.do("ack-up-to" if kind != "Shared" else "ack", "c", "-")
    owner.do("send", topic, "-", 5)
    assert reader.values("c", 1) == ["5"]
    assert served(txn_pool, topic) == 5
    if kind != "Shared":
        reader.do("ack-up-to", "c", "-")
        wait_until(lambda: txn_stack.admin().stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)
    reader.do("close", "c")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
def test_a_subscription_that_starts_inside_of_an_open_transaction_waits_for_its_end(
    txn_pool, owner, reader, topic, kind
) -> None:
    owner.do("begin", "a", 300)
    owner.do("send", topic, "a", "before")
    owner.do("send", topic, "-", "between")
    for client in (owner, reader):
        client.do("subscribe", "c", topic, f"of-{client is owner}", kind, "Latest")
    owner.do("send", topic, "-", "after")
    for client in (owner, reader):
        assert client.do("receive", "c", QUIET_MS) == "none"
    owner.do("commit", "a")
    expected = owner.values("c", 2, 3000)
    assert "after" in expected
    assert reader.values("c", len(expected)) == expected
    assert reader.do("receive", "c", QUIET_MS) == "none"
    assert served(txn_pool, topic) == len(expected)
    for client in (owner, reader):
        client.do("close", "c")


@pytest.mark.nightly
def test_a_transaction_that_spans_ledgers_and_runs_out_of_time(txn_pool, owner, reader, topic) -> None:
    owner.do("begin", "a", 5)
    for value in range(150):
        owner.do("send", topic, "a" if value % 3 == 0 else "-", value)
    reader.do("subscribe", "c", topic, "s", "Exclusive", "Earliest")
    expected = [str(value) for value in range(150) if value % 3]
    assert reader.values("c", len(expected), 60_000) == expected
    assert served(txn_pool, topic) == len(expected)
    reader.do("close", "c")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", TYPES)
def test_a_message_that_is_stored_after_its_transaction_was_aborted_keeps_nothing_back(
    txn_stack, txn_pool, owner, reader, topic, kind
) -> None:
    """A producer that was cut off stores it late; the subscriptions begin behind the transaction's marker."""
    most, least = map(int, owner.do("begin", "a", 300).split())
    owner.do("send", topic, "a", "in time")
    owner.do("abort", "a")
    for client in (owner, reader):
        client.do("subscribe", "c", topic, f"of-{client is owner}", kind, "Latest")
        client.do("close", "c")
    with RawClient(txn_stack.endpoints.brokers[0]) as late:
        late.produce(topic)
        late.publish(b"late", 0, transaction=(most, least))
        late.receipt()
    owner.do("send", topic, "-", 0)
    for client in (owner, reader):
        client.do("subscribe", "c", topic, f"of-{client is owner}", kind, "Latest")
        assert client.values("c", 1) == ["0"], "the owner skips the late message"
    owner.do("send", topic, "-", 1)
    assert reader.values("c", 1) == ["1"]
    assert served(txn_pool, topic) == 2
    for client in (owner, reader):
        client.do("close", "c")


@pytest.mark.parametrize("kind", TYPES)
def test_what_a_transaction_has_acked_is_not_delivered_while_it_is_open_and_again_after_its_abort(
    owner, reader, topic, kind
) -> None:
    for value in range(3):
        owner.do("send", topic, "-", value)
    ack = "ack" if kind == "Shared" else "ack-up-to"
    while_open = ["1", "2"] if kind == "Shared" else ["0", "1", "2"]  # a cumulative ack withholds nothing
    after_abort = ["0"] if kind == "Shared" else ["0", "1", "2"]
    for client, name in ((owner, "at-the-owner"), (reader, "through")):
        client.do("subscribe", "c", topic, name, kind, "Earliest")
        client.do("begin", "a", 300)
        assert client.values("c", 1) == ["0"], name
        client.do(ack, "c", "a")
        assert client.values("c", 2) == ["1", "2"], name
        client.do("close", "c")
        client.do("subscribe", "c", topic, name, kind, "Earliest")
        assert client.values("c", len(while_open)) == while_open, name
        assert client.do("receive", "c", QUIET_MS) == "none", name
        client.do("abort", "a")
        if kind != "Shared":
            client.do("redeliver", "c")
        assert client.values("c", len(after_abort)) == after_abort, name
        assert client.do("receive", "c", QUIET_MS) == "none", name
        client.do("close", "c")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", TYPES)
def test_what_a_committed_transaction_has_acked_never_comes_again(
    txn_stack, txn_pool, owner, reader, topic, kind
) -> None:
    for value in range(4):
        owner.do("send", topic, "-", value)
    reader.do("subscribe", "c", topic, "s", kind, "Earliest")
    if kind != "Exclusive":
        reader.do("subscribe", "other", topic, "s", kind, "Earliest")  # the subscription stays when the first one goes
    reader.do("begin", "a", 300)
    name = next(name for name in ("c", "other") if kind == "Exclusive" or reader.do("receive", name, 2000) != "none")
    if kind == "Exclusive":
        assert reader.values("c", 1) == ["0"]
    reader.do("ack" if kind == "Shared" else "ack-up-to", name, "a")
    reader.do("commit", "a")
    wait_until(lambda: txn_stack.admin().stats(topic)["subscriptions"]["s"]["msgBacklog"] == 3)
    reader.do("close", name)
    if kind == "Exclusive":
        reader.do("subscribe", "c", topic, "s", kind, "Earliest")
    left = "c" if kind == "Exclusive" or name == "other" else "other"
    assert sorted(reader.values(left, 4, 4000)) == ["1", "2", "3"]
    reader.do("close", left)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", TYPES)
def test_the_end_of_a_terminated_topic_is_told_when_all_is_acked(
    txn_stack, txn_pool, owner, reader, topic, kind
) -> None:
    for value in range(2):
        owner.do("send", topic, "-", value)
    owner.do("forget", topic)
    reader.do("subscribe", "c", topic, "s", kind, "Earliest")
    txn_stack.admin().terminate(topic)
    assert reader.values("c", 1) == ["0"]
    reader.do("ack", "c", "-")
    assert reader.values("c", 2, QUIET_MS) == ["1"]
    assert reader.do("ended", "c") == "false", "the last message is not acked"
    reader.do("ack", "c", "-")
    wait_until(lambda: reader.do("ended", "c") == "true")
    reader.do("close", "c")
    reader.do("subscribe", "c", topic, "s", kind, "Earliest")
    wait_until(lambda: reader.do("ended", "c") == "true", what="all was acked before the consumer came")
    reader.do("close", "c")


@pytest.fixture(scope="module")
def pushed(txn_stack: PulsarCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """A client of a read-only broker to which the owner pushes new entries."""
    options = ["--topics", "persistent://public/default/test-.*", "--tail", "owner"]
    with closing(Pool(txn_stack.endpoints, tmp_path_factory.mktemp("pushed"), uuid.uuid4().hex, options)) as pool:
        pool.start(1)
        with JavaClient(txn_stack, pool.url) as client:
            yield client


def is_pushed(txn_stack: PulsarCluster, topic: str) -> bool:
    return any("-tail-" in name for name in txn_stack.admin().stats(topic)["subscriptions"])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", TYPES)
def test_pushed_messages_of_a_transaction_come_at_its_commit(txn_stack, pushed, owner, topic, kind) -> None:
    """Their marker is not pushed."""
    pushed.do("subscribe", "c", topic, "s", kind, "Earliest")
    wait_until(lambda: is_pushed(txn_stack, topic))
    for round_ in range(3):
        owner.do("begin", "a", 300)
        owner.do("send", topic, "-", f"before-{round_}")
        for value in range(2):
            owner.do("send", topic, "a", f"{round_}-{value}")
        owner.do("send", topic, "-", f"behind-{round_}")
        assert pushed.values("c", 1) == [f"before-{round_}"]
        assert pushed.do("receive", "c", QUIET_MS) == "none"
        owner.do("commit", "a")
        assert pushed.values("c", 3) == [f"{round_}-0", f"{round_}-1", f"behind-{round_}"]
    pushed.do("close", "c")


@pytest.mark.nightly
def test_aborted_messages_of_a_pushed_topic_are_acked_when_it_rests(txn_stack, pushed, owner, topic) -> None:
    pushed.do("subscribe", "c", topic, "s", "Exclusive", "Earliest")
    wait_until(lambda: is_pushed(txn_stack, topic))
    owner.do("begin", "a", 300)
    for value in range(3):
        owner.do("send", topic, "a", value)
    owner.do("abort", "a")
    assert pushed.do("receive", "c", QUIET_MS) == "none"
    wait_until(lambda: txn_stack.admin().stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0, 120)
    pushed.do("close", "c")


@pytest.fixture(scope="module")
def publishing(txn_stack: PulsarCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pool, JavaClient]]:
    """Two read-only brokers and a client of theirs, which publishes to namespaces with and without deduplication."""
    folder = tmp_path_factory.mktemp("publishing")
    with closing(
        Pool(txn_stack.endpoints, folder, uuid.uuid4().hex, ["--topics", "persistent://public/txn-.*/.*"])
    ) as pool:
        pool.start(2)
        with JavaClient(txn_stack, pool.url) as client:
            yield pool, client


@pytest.fixture
def namespace(txn_stack: PulsarCluster, deduplication: bool) -> str:
    name = f"public/txn-{'dedup' if deduplication else 'plain'}-{uuid.uuid4().hex[:8]}"
    txn_stack.admin().create_namespace(name)
    txn_stack.admin().set_deduplication(name, enabled=deduplication)
    return name


@pytest.mark.nightly
@pytest.mark.parametrize("deduplication", [False, True], ids=["plain", "deduplication"])
def test_what_a_transaction_publishes_through_the_pool_is_stored_once(txn_stack, publishing, owner, namespace) -> None:
    """The owner moves inside of the transactions, and between their end and the next message."""
    pool, client = publishing
    topic, admin = f"persistent://{namespace}/t", txn_stack.admin()
    for transaction in ("a", "b"):
        client.do("begin", transaction, 300)
    expected = []
    for number in range(30):
        transaction = ("a", "-", "b")[number % 3]
        client.do("send", topic, transaction, number)
        expected += [str(number)] if transaction != "b" else []
        if number in {7, 20}:
            admin.unload(topic)
    assert sum(broker.stats()["producers"] for broker in pool.brokers) == 1
    client.do("commit", "a")
    client.do("abort", "b")
    admin.unload(topic)
    client.do("send", topic, "-", "last")
    for reader in (owner, client):
        reader.do("subscribe", "c", topic, f"of-{reader is owner}", "Exclusive", "Earliest")
        assert reader.values("c", len(expected) + 1) == [*expected, "last"]
        assert reader.do("receive", "c", QUIET_MS) == "none"
        reader.do("close", "c")
    client.do("forget", topic)
    wait_until(lambda: not admin.stats(topic)["publishers"], what="nothing is left at the owner")
