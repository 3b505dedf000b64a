"""`pulsar-readonly doctor` on a cluster with Oxia, and where each part is healthy but the whole is not."""

import urllib.request
from collections.abc import Iterator
from typing import Final

import pytest

from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import OXIA, PulsarSpec
from tests.integration.tools.doctor_report import Report, addresses, end, publish
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

SKEW_S: Final = 120
"""More than a clock with NTP ever has, and than the failing bound of the check."""

SKEWED: Final = f"""
import sys, time
true = time.time
time.time = lambda: true() - {SKEW_S}
from readonly_engine.command import main
sys.exit(main())
"""
"""The command on a machine whose clock is behind. The servers and their answers are real."""


@pytest.fixture(scope="module")
def oxia() -> Iterator[PulsarCluster]:
    """A small stack whose brokers and bookies keep their metadata in Oxia."""
    stack = PulsarCluster(
        PulsarSpec(name="doctor-oxia", base_port=15650, bookies=1, brokers=1, quick=True, metadata=OXIA)
    )
    stack.up(renew=True)
    yield stack
    end(stack)


def test_a_healthy_cluster_with_oxia(oxia: PulsarCluster, topic: str) -> None:
    publish(oxia.endpoints.writer_url, topic)
    report = Report(*addresses(oxia.endpoints), "--topic", topic, "--namespace", "public/default")
    assert (report.status, report.failed) == (0, []), report.shown
    assert report.results("metadata rights: write") == ["ok", "ok"]
    (same,) = report.of("same cluster")
    assert (same["result"], same["observed"][:38]) == ("ok", "the admin API's brokers are registered")
    report.record("healthy-oxia")


def test_the_metadata_store_of_another_cluster(oxia: PulsarCluster, txn_stack: PulsarCluster) -> None:
    """Store, bookies, brokers and admin API all answer, and are healthy."""
    report = Report(*addresses(txn_stack.endpoints, metadata_store_url=oxia.endpoints.pool_store))
    assert report.status == 2
    assert [one["check"] for one in report.failed] == ["same cluster"], report.shown
    assert "all three must be those of one cluster" in report.failed[0]["remedy"]
    assert set(report.results("bookie") + report.results("service URL")) == {"ok"}
    report.record("wrong-metadata-store")


def test_a_chroot_or_namespace_that_has_no_cluster(txn_stack: PulsarCluster) -> None:
    store = txn_stack.endpoints.pool_store
    wrong = f"{store.rpartition('/')[0]}/nothing" if store.startswith("oxia") else f"{store}/nothing"
    report = Report(*addresses(txn_stack.endpoints, metadata_store_url=wrong))
    assert report.status == 2
    assert all("metadata" in one["check"] or one["check"] == "bookies" for one in report.failed), report.shown


def test_a_clock_that_is_wrong(txn_stack: PulsarCluster) -> None:
    report = Report(*addresses(txn_stack.endpoints), program=("-c", SKEWED))
    assert (report.status, [one["check"] for one in report.failed]) == (2, ["clock"]), report.shown
    (clock,) = report.failed
    assert "s ahead of this machine (error up to" in clock["observed"]
    assert SKEW_S - 2 < float(clock["observed"].split("broker is ")[1].split()[0]) < SKEW_S + 2
    assert "NTP" in clock["remedy"]
    report.record("clock-skew")


def test_policies_that_make_subscriptions_pass_through(txn_stack: PulsarCluster, topic: str) -> None:
    publish(txn_stack.endpoints.writer_url, topic)
    txn_stack.admin().set_topic_policy(topic, "entryFilters", {"entryFilterNames": "only-even"})
    applied = f"{txn_stack.endpoints.admin_url}/admin/v2/{topic.replace('://', '/')}/entryFilters?applied=true"
    wait_until(lambda: b"only-even" in urllib.request.urlopen(applied, timeout=30).read(), 60, "no filter")
    words = [*addresses(txn_stack.endpoints), "--topic", topic]
    report = Report(*words)
    assert (report.status, report.results("passthrough")) == (0, ["warn"]), report.shown
    (found,) = report.of("passthrough")
    assert "entry filters at the owner: only-even; every subscription passes through" in found["observed"]
    report.record("passthrough-policies")
    local = Report(*words, "--cursors", "local")
    assert (local.status, [one["check"] for one in local.failed]) == (2, ["passthrough"]), local.shown
