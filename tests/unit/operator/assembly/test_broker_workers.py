"""Queries of brokers with several workers, against HTTP servers, and one report of a pod from those of its workers."""

import contextlib
from types import SimpleNamespace

import pytest
from readonly_operator.assembly.broker_report import BindingStats, BrokerReport, Lag, merged
from readonly_operator.assembly.brokers import MAX_INSTANCE_LENGTH, Brokers
from readonly_operator.assembly.lookup_state import LookupState
from readonly_operator.cluster import fetch
from readonly_operator.cluster.broker_ports import BrokerPorts
from readonly_operator.model.lookup import Entry, LookupConfig

from tests.support.played_http import played_http

ORDERS, LOGS = Entry("team/orders", ("persistent://x/y/orders",)), Entry("team/logs", ("persistent://x/y/logs",))


def report(*bindings, revision="r1", reachable=True, problem="", stats=None):
    return BrokerReport(
        "demo-0",
        reachable=reachable,
        revision=revision,
        bindings=frozenset(bindings),
        problem=problem,
        stats=stats or {},
        serving=True,
    )


def test_a_pod_holds_what_all_its_workers_hold():
    both = merged([report(ORDERS, LOGS), report(ORDERS)])
    assert (both.bindings, both.partly_loaded) == ({ORDERS}, {LOGS})
    assert both.has_loaded("team/orders")
    assert both.has_loaded("team/logs")
    assert not both.has_loaded("team/other")
    assert (both.reachable, both.revision, both.serving) == (True, "r1", True)


def test_a_pod_whose_workers_differ_has_no_revision_of_theirs():
    assert (
        merged([report(revision="r1"), report(revision="r2"), report(revision=None)]).revision == "none and r1 and r2"
    )
    assert merged([report(revision=None), report(revision=None)]).revision is None


def test_a_silent_worker_makes_the_pod_silent_and_is_named():
    both = merged([report(ORDERS), report(reachable=False, revision=None, problem="no answer in time")])
    assert (both.reachable, both.problem) == (False, "worker 1: no answer in time")
    assert both.bindings == frozenset()
    assert both.has_loaded("team/orders"), "its clients may still be served"


def test_a_worker_that_refuses_the_bindings_is_named():
    assert merged([report(), report(problem="bad topic")]).problem == "worker 1: bad topic"


def test_statistics_are_those_of_all_workers():
    slow, fast = Lag("t", "s", 90), Lag("t", "s2", 5)
    stats = [BindingStats(3, 7, (fast,)), BindingStats(None, None, ()), BindingStats(4, 8, (slow,))]
    known = merged([report(stats={"team/orders": one}) for one in stats]).stats["team/orders"]
    assert known == BindingStats(4, 8, (fast, slow))


@pytest.fixture
def start():
    """Start a process of a broker with answers by path; return its port, and the paths that it is asked for."""
    with contextlib.ExitStack() as servers:

        def do(**answers):
            made = SimpleNamespace(paths=[])

            def answer(request):
                made.paths.append(request.path)
                found = answers.get(request.path.partition("?")[0].strip("/").replace("/", "_"))
                return (404 if found is None else 200), found

            made.server_port = servers.enter_context(played_http(answer))
            return made

        yield do


def pod(*workers, name="demo-0"):
    ports = [{"name": f"http-{number}", "containerPort": one.server_port} for number, one in enumerate(workers)]
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"containers": [{"name": "broker", "ports": ports}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def holding(revision, *names, **more):
    return {
        **more,
        "revision": revision,
        "error": None,
        "bindings": [{"name": name, "topics": ["persistent://x/y/z"]} for name in names],
    }


def test_every_worker_of_every_pod_is_asked(context, monkeypatch, start):
    shared = start()  # the parent process answers 404
    monkeypatch.setattr("readonly_operator.kube.http_ports.PORT_HTTP", shared.server_port)
    a, b = start(bindings=holding("r1", "a", "b")), start(bindings=holding("r0", "a"))
    c, d = start(bindings=holding("r1", "a")), start(bindings=holding("r1", "a"))
    first, second = context.brokers.ask([pod(a, b), pod(c, d, name="demo-1")])
    assert (first.name, first.revision, {one.name for one in first.bindings}) == ("demo-0", "r0 and r1", {"a"})
    assert first.has_loaded("b")
    assert (second.name, second.revision, second.reachable) == ("demo-1", "r1", True)
    assert [one.paths for one in (a, b, c, d)] == [["/bindings"]] * 4
    assert shared.paths == []


def test_the_id_of_the_source_cluster_is_that_of_all_brokers_that_know_it(context, start):
    knows, former, other = (
        start(bindings=holding("r1", **said))
        for said in ({"bookkeeper_instance": "a"}, {}, {"bookkeeper_instance": "b" * 1000})
    )

    def instance(*servers):
        reports = context.brokers.ask([pod(one, name=f"demo-{number}") for number, one in enumerate(servers)])
        return LookupState(LookupConfig.of([]), len(servers), reports).bookkeeper_instance

    assert (instance(knows), instance(former, knows), instance(former)) == ("a", "a", "")
    assert instance(knows, other) == "", "during a change of the source"
    assert instance(other) == "b" * MAX_INSTANCE_LENGTH
    assert context.brokers.ask([pod(former, knows)])[0].bookkeeper_instance == "a"


def test_topics_are_asked_of_the_first_worker_that_answers(context, start):
    broken, other = start(), start(bindings_topics={"topics": ["persistent://x/y/z"]})
    assert context.brokers.matched([pod(broken, other)], "team/orders") == ("persistent://x/y/z",)


def many_workers(name, count=16):
    made = pod(name=name)
    ports = [{"name": f"http-{number}", "containerPort": 8180 + 100 * number} for number in range(count)]
    made["spec"]["containers"][0]["ports"] = ports
    return made


@pytest.fixture
def asked(monkeypatch):
    """URLs that were asked of brokers that do not answer."""
    urls = []

    def get_json(url, *_):
        urls.append(url)
        raise fetch.FetchError("no answer in time")

    monkeypatch.setattr("readonly_operator.assembly.brokers.get_json", get_json)
    return urls


@pytest.fixture
def brokers(asked):
    """Queries that each take the whole deadline of 2 s."""
    made = Brokers(None, None, 2.0, BrokerPorts(None), lambda: 2.0 * len(asked))
    yield made
    made.close()


def test_silent_pods_cost_no_timeout_for_each_worker(asked, brokers):
    (said,) = brokers.ask([many_workers("demo-0")])
    assert len(asked) == 2
    assert not said.reachable
    assert said.problem.endswith("worker 2: not asked, because the workers before it took 4 s")


def test_topics_are_asked_of_a_few_silent_processes_only(asked, brokers):
    pods = [many_workers(f"demo-{number}") for number in range(50)]
    for binding in range(20):
        assert brokers.matched(pods, f"team/{binding}") == ()
    assert len(asked) == 3, "they are remembered, too"
