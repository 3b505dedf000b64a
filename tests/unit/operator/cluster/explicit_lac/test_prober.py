"""Trying explicit LAC on a topic that a pool names, and by the health checks of owner brokers, against HTTP servers."""

import threading
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.broker_ports import BrokerPorts, Endpoint
from readonly_operator.cluster.explicit_lac import probe
from readonly_operator.cluster.explicit_lac.probe import MAX_PROBED_BROKERS, Probe
from readonly_operator.cluster.explicit_lac.prober import ProbeController
from readonly_operator.cluster.fetch import ANONYMOUS, FetchError
from readonly_operator.cluster.source import SourceReport
from readonly_operator.kube import http_ports
from readonly_operator.kube.kinds import POD, POOL
from readonly_operator.kube.names import LABEL_POOL, PoolKey
from readonly_operator.kube.store import Store

from tests.support.played_http import HttpRequest, played_http

TOPIC = "persistent://public/default/probe"


@dataclass
class Cluster:
    """Owner brokers, and the broker of a pool that is asked what bookies have."""

    entries: dict[str, int] = field(default_factory=dict)
    explicit: bool = True
    status: int = 200
    older: bool = False
    checks: int = 0
    broker: str = ""

    def answer(self, request: HttpRequest) -> tuple:
        if request.method == "PUT":
            return 204, None
        if request.method == "POST":
            assert request.path == "/topics/persistent/public/default/probe"
            self._add(TOPIC)
            return 200, {}
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/explicit-lac":
            last = self.entries.get(query["topic"], -1)
            found = {"lastEntry": last, "lac": last if self.explicit else last - 1, "explicit": self.explicit}
            return 200, {"topic": query["topic"], "ledger": None if last < 0 else 7, **found}
        assert (url.path, query) == ("/admin/v2/brokers/health", {"topicVersion": "V2"})
        self.checks += 1
        if self.status == 200 and not self.older:
            self._add(f"persistent://pulsar/{request.headers['Host']}/healthcheck")
        return self.status, "ok"

    def _add(self, topic: str) -> None:
        self.entries[topic] = self.entries.get(topic, -1) + 1


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(probe, "GRACE_SECONDS", 0.3)
    made = Cluster()
    with played_http(made.answer) as port:
        made.broker = f"127.0.0.1:{port}"
        monkeypatch.setattr(http_ports, "PORT_HTTP", port)
        yield made


@pytest.fixture
def body(cluster, pool_body):
    def make(name="demo", **lac):
        made = pool_body(name, explicitLac=lac)
        made["spec"]["source"]["adminUrl"] = f"http://{cluster.broker}"
        return made

    return make


@pytest.fixture
def run(cluster, body):
    def do(topic="", interval=10):
        made = Probe(topic, Pool.load(body()).source, ((cluster.broker, interval),))
        return made.run(Endpoint(f"http://{cluster.broker}"), ANONYMOUS, threading.Event())

    return do


@pytest.mark.parametrize(("topic", "where"), [(TOPIC, TOPIC), ("", "the health check of 1 owner broker")])
def test_what_bookies_are_told_is_seen(run, topic, where):
    for _ in range(2):
        result = run(topic)
        assert (result.observed, result.text) == (True, f"tried on {where}: bookies had it")


@pytest.mark.parametrize("topic", [TOPIC, ""])
def test_what_they_are_not_told_is_missed(cluster, run, topic):
    cluster.explicit = False
    result = run(topic)
    assert result.observed is False
    assert "no bookie had an explicit LAC for it" in result.text
    name = topic or f"persistent://pulsar/{cluster.broker}/healthcheck"
    assert f"{name}: ledger 7, last entry 0, LAC -1" in result.text


def test_a_broker_that_is_not_asked_for_its_health_cannot_be_judged(cluster, run):
    cluster.status = 403
    assert run().observed is None
    assert "it could not be tried on the health check of 1 owner broker: HTTP 403" in run().text


def test_a_broker_that_writes_elsewhere_cannot_be_judged(cluster, run):
    cluster.older = True
    result = run()
    assert result.observed is None
    assert result.text.endswith(f"there is no topic persistent://pulsar/{cluster.broker}/healthcheck")


def test_explicit_lacs_that_are_far_apart_are_not_waited_for(run):
    assert run(interval=60_000).observed is None


def test_not_all_of_many_brokers_are_asked(body):
    source = Pool.load(body()).source
    many = Probe("", source, tuple((f"b{number}:8080", 100) for number in range(MAX_PROBED_BROKERS + 5)))
    assert (len(many.brokers), many.where) == (MAX_PROBED_BROKERS, "the health check of 20 of 25 owner brokers")


class Sources:
    """What the owner brokers say they run with."""

    def __init__(self, broker):
        self.intervals = ((broker, 10),)

    def report(self, _):
        return SourceReport((), self.intervals)


@pytest.fixture
def sources(cluster):
    return Sources(cluster.broker)


@pytest.fixture
def store():
    return Store(BindingTopicIndex())


@pytest.fixture
def prober(store, sources):
    told = []
    made = ProbeController(store, sources, told.append, lambda _: ANONYMOUS, threading.Event(), BrokerPorts(None))
    made.told = told
    return made


def broker_of(store, name, **spec):
    metadata = {
        "name": f"{name}-0",
        "namespace": "team",
        "uid": name,
        "labels": {LABEL_POOL: name},
        "resourceVersion": "1",
    }
    status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    store.put(POD, {"metadata": metadata, "spec": spec, "status": status})


def test_pools_of_one_writable_cluster_that_name_no_topic_are_tried_for_together(cluster, store, body, prober):
    for name in ("a", "b"):
        store.put(POOL, body(name))
    prober.sync()
    assert cluster.checks == 0, "no broker runs that could ask bookies"
    broker_of(store, "b")
    prober.sync()
    reports = [prober.report(PoolKey("team", name)) for name in ("a", "b")]
    assert [one and one.observed for one in reports] == [True, True]
    assert (cluster.checks, sorted(prober.told)) == (1, [PoolKey("team", "a"), PoolKey("team", "b")])
    store.put(POOL, body("c"))
    prober.sync()
    assert prober.report(PoolKey("team", "c")) == reports[0]
    assert cluster.checks == 1


def test_a_pod_of_several_workers_is_asked_at_a_worker(monkeypatch, cluster, store, body, prober):
    monkeypatch.setattr(http_ports, "PORT_HTTP", 1)  # the parent process knows no topic
    ports = [{"name": "http", "containerPort": 1}, {"name": "http-0", "containerPort": int(cluster.broker[10:])}]
    store.put(POOL, body(probeTopic=TOPIC))
    broker_of(store, "demo", containers=[{"name": "broker", "ports": ports}])
    prober.sync()
    assert prober.report(PoolKey("team", "demo")).observed is True


def test_nothing_is_tried_where_explicit_lac_is_off(cluster, sources, store, body, prober):
    sources.intervals = ((cluster.broker, 0),)
    store.put(POOL, body())
    broker_of(store, "demo")
    prober.sync()
    assert prober.report(PoolKey("team", "demo")) is None
    assert cluster.checks == 0


def test_after_a_change_of_the_writable_brokers_it_is_tried_again(cluster, sources, store, body, prober):
    store.put(POOL, body())
    broker_of(store, "demo")
    for interval, checks in ((10, 1), (10, 1), (20, 2)):
        sources.intervals = ((cluster.broker, interval),)
        prober.sync()
        assert cluster.checks == checks


def test_a_pool_without_credentials_says_so(store, sources, body):
    def refuse(_):
        raise FetchError("Secret admin has no key token")

    prober = ProbeController(store, sources, lambda _: None, refuse, threading.Event(), BrokerPorts(None))
    store.put(POOL, body())
    broker_of(store, "demo")
    prober.sync()
    result = prober.report(PoolKey("team", "demo"))
    assert result is not None
    assert (result.observed, result.text.endswith("Secret admin has no key token")) == (None, True)
