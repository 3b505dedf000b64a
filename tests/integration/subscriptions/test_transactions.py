"""Transactions through the pool, with the stock Java client: what it reads is what it reads at the owner."""

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.java_client import JavaClient
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


def split_of(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = broker.stats()["topics"][topic]["subscriptions"]["s"]["split"]
    return found


def test_brokers_that_split_a_subscription_deliver_at_the_commit(txn_stack, tmp_path, owner, topic) -> None:
    """The messages of a transaction are leased to one broker, and the marker to the next."""
    bindings = tmp_path / "bindings.json"
    binding = {"name": "team/split", "topics": [topic], "dispatch": "Split"}
    bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}))
    with ExitStack() as stack:
        pool = stack.enter_context(
            closing(Pool(txn_stack.endpoints, tmp_path, uuid.uuid4().hex, ["--bindings", str(bindings)]))
        )
        pool.start(2)
        url = pool.brokers[0].url  # whose lookups name the brokers in turn; two brokers may name the same one
        readers = [stack.enter_context(JavaClient(txn_stack, url)) for _ in pool.brokers]
        for reader in readers:
            reader.do("subscribe", "c", topic, "s", "Shared", "Earliest")

        def members() -> list[str]:
            return [one for broker in pool.brokers for one in split_of(broker, topic).get("members", [])]

        def received(milliseconds: int) -> list[str]:
            return [reader.do("receive", "c", milliseconds).split()[-1] for reader in readers]

        wait_until(members)
        for number in range(2):
            owner.do("begin", "a", 300)
            owner.do("send", topic, "a", number)
            assert received(200) == ["none", "none"]
            owner.do("commit", "a")
            wait_until(lambda: str(number) in received(100), 10)  # noqa: B023
            owner.do("send", topic, "-", "plain")  # the next transaction is another broker's
            wait_until(lambda: "plain" in received(100), 10)
        assert [broker.dispatched(topic) for broker in pool.brokers] == [2, 2]


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
