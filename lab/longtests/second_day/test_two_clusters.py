"""Two Kubernetes clusters, one manifest, one Pulsar: the second pool is refused, and its deletion does not affect the first."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from longtests.second_day.conftest import DEPLOYMENT, SYSTEM, connection, devstack, manifests
from tests.e2e.install import install
from tests.e2e.kubernetes import Kubernetes, eventually
from tests.e2e.test_explicit_lac import FINALIZER_RULE, grant
from tests.e2e.traffic import RATE, Traffic, plan

if TYPE_CHECKING:
    from devstack.pulsar.cluster import PulsarCluster

READY: Final = {"Ready": ("True", "BrokersReady")}
TAKEN: Final = {"Ready": ("False", "PoolNameTaken")}
POOLS: Final = "pulsar-readonly.io/pool"
SPREAD: Final = ("Shared", "Key_Shared")
"""Subscriptions that consumers of both clusters have at once."""

STARTING_S: Final = 240
NOTICED_S: Final = 8
"""Longest time until a pool leaves a Shared subscription to the owner because others have consumers of it; it asks every 5 s."""


@pytest.fixture(scope="module")
def both(cluster) -> tuple[Kubernetes, Kubernetes]:
    """Two clusters with the operator and the images."""
    found = []
    for number in (1, 2):
        kubernetes = cluster(number)
        for image in ("operator", "engine", "client"):
            devstack(number, "image", "build", "--load", image)
        install(kubernetes, "kustomize", SYSTEM)
        kubernetes("rollout", "restart", *DEPLOYMENT)
        kubernetes("rollout", "status", *DEPLOYMENT, "--timeout=180s", timeout=200)
        found.append(kubernetes)
    return found[0], found[1]


def admin(stack: PulsarCluster, path: str) -> dict[str, Any]:
    """What the source's admin API answers."""
    with urllib.request.urlopen(f"{stack.endpoints.admin_url}/admin/v2/{path}", timeout=30) as answer:
        return json.load(answer)


def registered(stack: PulsarCluster, cluster: str) -> dict[str, Any]:
    """The entry of a cluster in the source's metadata; LookupError without one."""
    try:
        return admin(stack, f"clusters/{cluster}")
    except urllib.error.HTTPError as error:
        raise LookupError(f"cluster {cluster}: HTTP {error.code}") from None


def test_one_manifest_in_two_clusters(both, source, name, measured) -> None:
    first, second = both
    for one in both:
        one("create", "namespace", name)
        grant(one, name, FINALIZER_RULE)  # for the entry in the metadata
    where = connection(source)
    same = manifests(name, where, lookup={"clusterName": name})
    first.apply(*same)
    first.expect("robp", "demo", name, READY, timeout=STARTING_S)
    clients = Traffic(first, name, {**plan(name, where), "others": True})
    clients.wait_for_more(eventually)
    first.expect("robp", "demo", name, {"ClusterRegistered": ("True", "Registered")}, timeout=120)
    entry = registered(source, name)
    uid = first.get("robp", "demo", name)["metadata"]["uid"]
    assert uid in json.dumps(entry)

    # The same manifest in the second cluster is refused: nothing of the first pool changes.
    second.apply(*same)
    said = second.expect("robp", "demo", name, TAKEN, timeout=STARTING_S)
    assert "in another Kubernetes cluster" in said["Ready"]
    clients.wait_for_more(eventually)
    first.expect("robp", "demo", name, READY)
    assert registered(source, name) == entry
    second("delete", "robp/demo", "rotb/demo", "-n", name, timeout=STARTING_S)

    def gone() -> None:
        assert second.list("pods,services,statefulsets", name, POOLS) == []

    eventually(gone, 120)
    assert registered(source, name) == entry, "the entry of the first pool stays"
    clients.wait_for_more(eventually)

    # Under a name of its own it serves the same topics. Its consumers join subscriptions of the first one's.
    second.apply(*manifests(name, where, name="other"))
    second.expect("robp", "other", name, READY, timeout=STARTING_S)
    joining = plan(name, where, pool="other")
    joining["topics"] = {}
    joining["consumers"] = [one for one in joining["consumers"] if one["type"] in SPREAD]
    others = Traffic(second, name, joining)
    clients.wait_for_more(eventually, 60)
    report = clients.finish()
    assert not report.failed

    def acked() -> None:
        # An owner of 4.0.8 may keep the last messages of Key_Shared (Pulsar issue 23845); the first consumers have left.
        for topic, partitions in plan(name, where)["topics"].items():
            kind = "partitioned-stats" if partitions else "stats"
            stats = admin(source, f"{topic.replace('://', '/')}/{kind}?getPreciseBacklog=true")
            left = {one: found["msgBacklog"] for one, found in stats["subscriptions"].items() if one in report.received}
            assert not any(left.values()), left

    eventually(acked, 60)
    there = others.finish()
    doubled: dict[str, int] = {}
    for subscription in report.received:
        numbers = Counter(got.number for got in report.received[subscription])
        numbers += Counter(got.number for got in there.received.get(subscription, ()))
        sent = len(report.sent[report.topics[subscription]])
        assert set(numbers) == set(range(sent)), (
            f"{subscription}: {sorted(set(range(sent)) - set(numbers))[:20]} are lost"
        )
        twice = sorted(number for number, count in numbers.items() if count > 1)
        doubled[subscription] = len(twice)
        # The first pool finds the others' consumers by the owner's statistics (broker/passthrough/policy.py).
        bound = NOTICED_S * RATE if subscription in SPREAD else 0
        assert not twice or twice[-1] - twice[0] < bound, (
            f"{subscription}: {twice[0]} to {twice[-1]} came more than once"
        )
    shares = {one: len(there.received[one]) for one in SPREAD}
    assert all(shares.values()), shares
    measured(
        f"{sum(map(len, report.sent.values()))} messages, 0 lost; twice while the second pool joined: {doubled}; the second "
        f"cluster's share of subscriptions of both: {shares}"
    )
    for one in both:
        one("delete", "namespace", name, "--wait=false")
