"""Removal of guards and topics with cursors: what is removed, what stays, and what happens without an answer."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from readonly_operator.bindings.coverage import Uncovered
from readonly_operator.cluster.fetch import FetchError
from readonly_operator.cluster.local_cursors.controller import GIVE_UP_SECONDS, RETRY_SECONDS, ReleaseController
from readonly_operator.cluster.local_cursors.release import BATCH, Release, ReleaseRequest
from readonly_operator.kube.names import PoolKey

from tests.unit.operator.cluster.local_cursors.admin_world import GUARD, IDENTITY

DEMO = PoolKey("team", "demo")
OTHERS = ("audit", "pulsar-readonly-guard-team.other@u-0", f"{GUARD}x")


@pytest.fixture
def stopped():
    return threading.Event()


@pytest.fixture
def controller(world, clock, stopped):
    return ReleaseController(lambda _: None, world.admin, lambda: None, stopped, clock)


@pytest.fixture
def run(controller, world):
    """Track one request, or go on with it, for one sync; return its report."""

    def run(topics=None, known=()):
        request = ReleaseRequest("pool team/demo", world.source, IDENTITY, topics, known)
        controller.track(DEMO, {(DEMO, "uid"): request})
        controller.sync()
        return controller.report(DEMO)["uid"]

    return run


def test_a_pool_loses_all_guards_and_its_topics_and_nothing_else(world, run):
    world.add("shop/eu", "orders", "clicks-partition-0", guards=[f"{GUARD}0", f"{GUARD}15", *OTHERS])
    world.add("news/eu", "a%2Fb", guards=[f"{GUARD}3"])
    world.add("free/eu", "plain", guards=[f"{GUARD}3"], pool="")
    world.add("odd/eu", "theirs", guards=[f"{GUARD}3"], pool="team.other@u")
    report = run()
    assert (report.released, report.complete) == (True, True)
    assert report.text == "5 guards removed, 3 topics checked, 2 topics with cursors deleted"
    assert world.topics["persistent://shop/eu/orders"] == list(OTHERS)
    assert world.topics["persistent://news/eu/a%2Fb"] == []
    assert {name: pool for name, (_, pool) in world.cursors.items()} == {next(iter(world.cursors)): "team.other@u"}, (
        "a topic without this pool's property is somebody else's"
    )
    assert world.topics["persistent://odd/eu/theirs"] == [f"{GUARD}3"]


def test_a_binding_loses_the_guards_of_topics_that_no_other_binding_covers(world, run, make_binding):
    leaving = make_binding("leaving", "persistent://shop/eu/orders-.*", "persistent://news/eu/x")
    staying = make_binding("staying", "persistent://shop/eu/orders-b")
    world.add("shop/eu", "orders-a-partition-1", "orders-b-partition-0", "clicks", guards=[f"{GUARD}1"])
    world.add("news/eu", "x", guards=[f"{GUARD}1"])
    world.add("more/eu", "orders-a", guards=[f"{GUARD}1"])
    assert run(Uncovered.of(leaving, [staying], [])).text == "2 guards removed, 2 topics checked"
    assert [name for name, left in world.topics.items() if left] == [
        "persistent://shop/eu/orders-b-partition-0",
        "persistent://shop/eu/clicks",
        "persistent://more/eu/orders-a",
    ]
    assert len(world.cursors) == 3


def test_without_a_super_user_the_namespaces_of_the_bindings_are_searched(world, run):
    world.add("shop/eu", "orders", guards=[f"{GUARD}1"])
    world.add("news/eu", "x", guards=[f"{GUARD}1"])
    world.refused["GET tenants"] = 403
    assert run(known=("shop/eu",)).complete
    assert [name for name, left in world.topics.items() if left] == ["persistent://news/eu/x"]


def test_thousands_of_topics_are_removed_in_slices_that_end_in_time(world, clock):
    world.add("shop/eu", *(f"t{number}" for number in range(3 * BATCH)), guards=[f"{GUARD}1"])
    with ThreadPoolExecutor(8) as threads:
        request = ReleaseRequest("pool", world.source, IDENTITY, None)
        release = Release(request, world.admin, threads, clock, lambda: False)
        slices = 1
        while not release.advance(clock.now):
            slices += 1
    assert slices == 3
    assert release.summary.startswith(f"{3 * BATCH} guards removed, {3 * BATCH} topics checked")
    assert not any(world.topics.values())


def test_a_topic_that_cannot_be_handled_is_tried_again_alone(world, run, clock):
    world.add("shop/eu", "good", "bad", guards=[f"{GUARD}1"])
    world.refused["DELETE persistent/shop/eu/bad"] = 412
    report = run()
    assert not report.released
    assert report.text.startswith(
        "1 guards removed, 1 topics checked, 0 topics with cursors deleted; persistent://shop/eu/bad"
    )
    assert world.cursors, "while a guard is there, a later attempt has to find it"
    world.refused.clear()
    world.asked.clear()
    assert not run().released, "the next attempt is not due"
    assert world.asked == []
    request = ReleaseRequest("again", world.source, IDENTITY, None)
    with ThreadPoolExecutor(1) as threads:
        assert Release(request, world.admin, threads, clock, lambda: False).advance(0)
    assert not world.cursors


def test_failed_topics_are_retried_without_a_new_list(world, clock):
    world.add("shop/eu", "good", "bad", guards=[f"{GUARD}1"])
    world.refused["DELETE persistent/shop/eu/bad"] = 500
    with ThreadPoolExecutor(2) as threads:
        release = Release(
            ReleaseRequest("pool", world.source, IDENTITY, None), world.admin, threads, clock, lambda: False
        )
        assert not release.advance(9)
        assert release.failed
        world.refused.clear()
        world.asked.clear()
        assert release.advance(9)
    assert [one for one in world.asked if "/good/" in one or one == "GET persistent/shop/eu"] == []
    assert not world.cursors


def test_a_topic_with_connected_producers_is_kept_and_its_topics_are_not_checked_again(world, clock):
    world.add("shop/eu", "orders", guards=[f"{GUARD}1"])
    world.refused["DELETE persistent/shop/eu/__readonly"] = 412
    with ThreadPoolExecutor(2) as threads:
        release = Release(
            ReleaseRequest("pool", world.source, IDENTITY, None), world.admin, threads, clock, lambda: False
        )
        assert not release.advance(9)
        assert "__readonly_cursors-" in release.problems
        world.asked.clear()
        before = release.progress
        assert not release.advance(9)
        assert release.progress == before, "an attempt that fails again is no progress"
        assert [one for one in world.asked if "orders" in one] == []


@pytest.fixture
def try_until_given_up(controller):
    """Make every item due again and again; return the number of tries, and the last report."""

    def run():
        for tries in range(2, 100):
            controller._due.clear()
            controller.sync()
            report = controller.report(DEMO)["uid"]
            if report.released:
                return tries, report
        raise AssertionError("never given up")

    return run


TRIES = int(GIVE_UP_SECONDS / RETRY_SECONDS) + 1
"""Tries that fail at once until the cluster is given up."""


def test_a_source_cluster_that_is_gone_is_given_up(world, run, try_until_given_up):
    world.add("shop/eu", "orders", guards=[f"{GUARD}1"])
    world.close()
    report = run()
    assert not report.released
    assert "the source cluster does not answer: connection refused" in report.text
    tries, report = try_until_given_up()
    assert (tries, report.complete) == (TRIES, False)


def test_refused_deletions_are_given_up_and_named(world, run, try_until_given_up):
    world.add("shop/eu", "orders", guards=[f"{GUARD}1"])
    world.refused["DELETE"] = 403
    assert not run().released
    tries, report = try_until_given_up()
    assert (tries, report.complete) == (TRIES, False)
    assert "persistent://shop/eu/orders: HTTP 403" in report.text


def test_two_failures_are_no_reason_to_give_up_however_far_apart(world, run, controller, clock):
    """The threads may have worked for others meanwhile, or the machine slept."""
    world.add("shop/eu", "orders", guards=[f"{GUARD}1"])
    world.refused["DELETE"] = 500
    assert not run().released
    clock.now = 100 * GIVE_UP_SECONDS
    controller._due.clear()
    controller.sync()
    assert not controller.report(DEMO)["uid"].released
    world.refused.clear()
    controller._due.clear()
    controller.sync()
    assert controller.report(DEMO)["uid"].complete


def test_progress_renews_the_time(world, run, controller, try_until_given_up):
    world.add("shop/eu", "orders", "clicks", guards=[f"{GUARD}1"])
    world.refused |= {"DELETE persistent/shop/eu/orders": 403, "DELETE persistent/shop/eu/clicks": 403}
    run()
    del world.refused["DELETE persistent/shop/eu/clicks"]
    assert try_until_given_up()[0] == TRIES + 2, "one before it, and itself"


def test_dead_hosts_are_waited_for_once_by_all_removals_of_their_cluster(world, controller, clock):
    """Else each of many deleted objects would wait for the timeouts of all others."""
    world.add("shop/eu", "orders", guards=[f"{GUARD}1"])
    asked = []

    def admin(source):
        asked.append(source)
        clock.now += 30.0
        raise FetchError("no answer in time")

    controller._admin_for = admin
    items = {(DEMO, str(uid)): ReleaseRequest(f"binding {uid}", world.source, IDENTITY, None) for uid in range(20)}
    controller.track(DEMO, items)
    controller.sync()
    assert len(asked) == 1
    assert {report.released for report in controller.report(DEMO).values()} == {False}
    rounds = 1
    while not all(report.released for report in controller.report(DEMO).values()):
        clock.now += RETRY_SECONDS
        controller._due.clear()
        controller.sync()
        rounds += 1
    assert (rounds, len(asked)) == (4, 4), "40 s of own time in each"


def test_an_operator_that_ends_makes_no_further_request(world, clock):
    world.add("shop/eu", "orders", guards=[f"{GUARD}1"])
    ends = []
    with ThreadPoolExecutor(1) as threads:
        release = Release(
            ReleaseRequest("pool", world.source, IDENTITY, None), world.admin, threads, clock, lambda: bool(ends)
        )
        guards = world.admin().guards

        class Ending:
            def __getattr__(self, name):
                return getattr(world.admin(), name)

            def topics(self, namespace):
                ends.append(1)
                return world.admin().topics(namespace)

        release._make_admin = Ending
        with pytest.raises(FetchError, match="the operator ends"):
            release.advance(9)
    assert guards("persistent://shop/eu/orders", IDENTITY) == [f"{GUARD}1"]


def test_a_report_ends_with_its_object(world, run, controller):
    world.add("shop/eu", "orders")
    assert run().released
    controller.track(DEMO, {})
    controller.sync()
    assert controller.report(DEMO) == {}
