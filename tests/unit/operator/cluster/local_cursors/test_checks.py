"""Checks of namespaces: requests, reports, and an operator without rights."""

import threading

import pytest
from readonly_operator.cluster.cursor_limits import CursorLimits
from readonly_operator.cluster.local_cursors.checks import CheckRequest, NamespaceChecks
from readonly_operator.kube.names import PoolKey

from tests.unit.operator.cluster.local_cursors.admin_world import IDENTITY

DEMO = PoolKey("team", "demo")


@pytest.fixture
def woken():
    return []


@pytest.fixture
def checks(world, woken):
    changed = []
    made = NamespaceChecks(60, changed.append, world.admin, lambda: woken.append(1), threading.Event())
    made.changed_pools = changed
    return made


def track(checks, world, *namespaces, **values):
    checks.track(DEMO, {DEMO: CheckRequest(world.source, IDENTITY, 16, namespaces, **values)})
    checks.sync()
    return checks.report(DEMO)


def test_a_namespace_costs_one_request(world, checks):
    world.add("shop/eu")
    assert track(checks, world, "shop/eu", "shop/none")["shop/eu"].obstacles == ()
    assert world.asked == ["GET namespaces/shop/eu", "GET namespaces/shop/none"]
    checks.sync()
    assert len(world.asked) == 2, "the next check is not due"


def test_an_obstacle_is_reported_and_the_pool_is_reconciled(world, checks):
    world.add("shop/eu")
    world.policies["shop/eu"]["encryption_required"] = True
    (condition,) = track(checks, world, "shop/eu")["shop/eu"].obstacles
    assert condition.reason == "EncryptionRequired"
    assert checks.changed_pools == [DEMO]


def test_an_existing_topic_keeps_its_number_of_partitions(world, checks):
    world.add("shop/eu", partitions=4)
    assert (
        track(checks, world, "shop/eu", limits=CursorLimits(partitions=8, subscriptions=8))["shop/eu"].obstacles == ()
    )


def test_somebody_elses_topic_does_not_count_as_existing(world, checks):
    world.add("shop/eu", pool="team.other@u", partitions=4)
    (condition,) = track(checks, world, "shop/eu", limits=CursorLimits(partitions=8))["shop/eu"].obstacles
    assert condition.reason == "PartitionLimit"


def test_without_rights_nothing_is_said(world, checks):
    world.add("shop/eu")
    world.refused["namespaces/shop/eu"] = 403
    report = track(checks, world, "shop/eu")["shop/eu"]
    assert (report.forbidden, report.problem, report.obstacles) == (True, "", ())


def test_a_dead_cluster_is_asked_once_for_all_namespaces(world, checks):
    world.add("shop/eu")
    world.refused["GET"] = 503
    reports = track(checks, world, "shop/eu", "shop/us", "shop/asia")
    assert all(report.problem for report in reports.values())
    assert len(reports) == 3
    assert len(world.asked) == 1


def test_items_that_stay_the_same_wake_nobody(world, checks, woken):
    track(checks, world, "shop/eu")
    track(checks, world, "shop/eu")
    assert len(woken) == 1
    checks.track(DEMO, {})
    checks.track(DEMO, {})
    checks.sync()
    assert (len(woken), checks.report(DEMO)) == (2, {})
