"""Topics with transactions: planned from the owner's last snapshot on, with the messages that consumers would get."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark.plan import snapshots
from readonly_spark.plan.snapshots import ANY_LEDGER, Snapshot

from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.java_client import JavaClient
from tests.support.pulsar.spark_driver import Driver
from tests.support.pulsar.stacks import broker_settings, fresh_stack, kept_ledgers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

LEDGER_ENTRIES: Final = 20

IN_SEGMENT: Final = 5
"""Aborted transactions of a segment."""

ABORTED: Final = 3 * IN_SEGMENT + 2

TOPIC_SIZE: Final = len("persistent://public/default/test-") + 12
"""Of the names of the fixture `topic`."""

SNAPSHOT_S: Final = 60
"""The owner takes one every 5 s."""


@pytest.fixture(scope="module")
def segmented() -> Iterator[PulsarCluster]:
    """A stack whose owner stores snapshots in segments."""
    settings = broker_settings(
        managedLedgerMinLedgerRolloverTimeMinutes=0,
        transactionBufferSegmentedSnapshotEnabled="true",
        # SnapshotSegmentAbortedTxnProcessorImpl computes the number of transactions from it.
        transactionBufferSnapshotSegmentSize=8 + TOPIC_SIZE + 3 * IN_SEGMENT,
    )
    with fresh_stack(
        "segments", 25850, transactions=True, settings=(*kept_ledgers(LEDGER_ENTRIES), *settings)
    ) as stack:
        yield stack


@pytest.fixture(params=["whole", "in segments"])
def stack(request: pytest.FixtureRequest) -> PulsarCluster:
    """A stack for each kind of snapshot."""
    found: PulsarCluster = request.getfixturevalue("spark_stack" if request.param == "whole" else "segmented")
    return found


def snapshot(stack: PulsarCluster, topic: str) -> Snapshot | None:
    """The newest snapshot of a topic, read anew."""
    with closing(Driver(stack, topic)) as driver:
        driver.states()
        found: Snapshot | None = driver.call(driver.catalog.snapshots.read(parse_topic_name(topic)))
        return found


def test_the_search_begins_at_the_snapshot(stack: PulsarCluster, topic: str) -> None:
    with JavaClient(stack, stack.endpoints.writer_url) as java:
        java.do("send", topic, "-", "plain")
        expected = ["plain"]
        for number in range(ABORTED):
            for outcome in ("abort", "commit"):
                java.do("begin", outcome, 300)
                java.do("send", topic, outcome, f"{outcome}-{number}")
                java.do(outcome, outcome)
            expected.append(f"commit-{number}")
        java.do("begin", "old", 300)
        java.do("send", topic, "old", "old")
        # Perhaps no snapshot follows: the position to which consumers may read does not move while the old one is open.
        java.do("begin", "young", 300)
        java.do("send", topic, "young", "young")
        java.do("abort", "young")
        java.do("send", topic, "-", "behind")

        def taken() -> bool:
            found = snapshot(stack, topic)
            return found is not None and len(found.aborted) >= ABORTED

        wait_until(taken, SNAPSHOT_S, "the owner has taken a snapshot after the last of them")
        found = snapshot(stack, topic)
        assert found is not None
        sealed = [ledger for ledger in found.aborted.values() if ledger != ANY_LEDGER]
        assert len(sealed) == (len(found.aborted) if stack.spec.name == "spark" else 3 * IN_SEGMENT)

        with closing(Driver(stack, topic)) as reading:
            reading.await_values(expected)
            scan = reading.catalog.transactions.scanned(topic)
            assert scan is not None
            assert scan.index.start == Position(found.position.ledger_id, found.position.entry_id + 1)
            assert scan.index.start > Position(reading.states()[topic].earliest.ledger_id, 2)
            java.do("commit", "old")
            reading.await_values([*expected, "old", "behind"])
    with closing(Driver(stack, topic)) as again:
        again.await_values([*expected, "old", "behind"])


def test_without_a_usable_snapshot_all_is_searched(
    stack: PulsarCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with JavaClient(stack, stack.endpoints.writer_url) as java:
        for number in range(IN_SEGMENT + 1):
            java.do("begin", "a", 300)
            java.do("send", topic, "a", f"a-{number}")
            java.do("abort", "a")
        java.do("send", topic, "-", "plain")
    wait_until(
        lambda: (found := snapshot(stack, topic)) is not None and len(found.aborted) > IN_SEGMENT,
        SNAPSHOT_S,
        "a snapshot",
    )
    monkeypatch.setattr(snapshots, "MAX_ABORTED", IN_SEGMENT)
    assert snapshot(stack, topic) is None, "it is larger"
    with closing(Driver(stack, topic)) as reading:
        reading.await_values(["plain"])
        scan = reading.catalog.transactions.scanned(topic)
        assert scan is not None
        assert scan.index.start == EARLIEST
