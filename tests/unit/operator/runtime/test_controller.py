"""What the controller does about events and at its end, on an API server that has nothing."""

import copy
import queue
import threading

import pytest
from readonly_operator.cluster import source_clusters
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import BINDING, CONFIG_MAP, POD, POOL
from readonly_operator.kube.names import LABEL_POOL, PoolKey
from readonly_operator.runtime import controller
from readonly_operator.runtime.controller import Controller
from readonly_operator.selector import LabelSelector
from readonly_operator.settings import Settings

WAIT_SECONDS = 30.0


class Nothing:
    """An API server without objects, that tells when everything was listed once more, and answers late."""

    def __init__(self):
        self.lists = 0
        self.listed = threading.Event()
        self.asked = threading.Event()
        self.answers = threading.Event()

    def list(self, kind, namespace):
        if kind == POD:
            self.lists += 1
            self.listed.set()
        return []

    def serves(self, kind, namespace):
        return True

    def get(self, kind, namespace, name):
        self._answer_late()

    def apply_status(self, manifest):
        self._answer_late()

    def _answer_late(self):
        self.asked.set()
        self.answers.wait(WAIT_SECONDS)
        raise KubeError("no")


@pytest.fixture
def kube():
    return Nothing()


@pytest.fixture
def running(kube, monkeypatch):
    monkeypatch.setattr(controller, "RELIST_SECONDS", 0.01)
    made = Controller(kube, Settings(engine_image="engine"))
    made.start()
    yield made
    kube.answers.set()
    made.stop()


def body(name):
    metadata = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1", "labels": {LABEL_POOL: "demo"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_a_watch_that_begins_anew_makes_everything_be_listed(kube, running):
    kube.listed.clear()
    running.observe(CONFIG_MAP, "ADDED", body("one"))
    assert not kube.listed.is_set()
    running.observe(CONFIG_MAP, None, body("two"))
    assert kube.listed.wait(WAIT_SECONDS), "what was deleted while nobody watched is known by a list only"


def test_changes_in_another_namespace_are_collected(kube, pool_body, binding_body):
    """Whoever may write bindings somewhere must not keep the workers and the brokers of a pool busy."""
    made = Controller(kube, Settings(engine_image="engine"))
    made.observe(POOL, "ADDED", pool_body())
    assert len(made._queue) == 1
    key = made._queue.get()
    assert str(key) == "team/demo"
    made._delays[key] = 8.0
    for version in range(1, 20):
        foreign = copy.deepcopy(binding_body())
        foreign["metadata"] |= {"namespace": "shop", "resourceVersion": str(version), "generation": version}
        foreign["spec"]["poolRef"]["namespace"] = "team"
        made.observe(BINDING, "MODIFIED", foreign)
    assert len(made._queue) == 0
    assert made._delays == {key: 8.0}, "the delay between retries stays"
    made.observe(BINDING, "ADDED", binding_body("own"))
    assert made._delays == {}
    assert len(made._queue) == 1, "the pool's own users do not wait"
    made.stop()


def test_a_pool_that_the_selector_leaves_to_others_costs_no_request(kube, pool_body):
    made = Controller(kube, Settings(engine_image="engine", selector=LabelSelector.parse("operator=canary")))
    kube.answers.set()
    body = pool_body()
    for version, labels, served in (
        (8, {"operator": "stable"}, False),
        (9, {"operator": "canary"}, True),
        (10, {}, False),
    ):
        body = {**body, "metadata": {**body["metadata"], "labels": labels, "resourceVersion": str(version)}}
        made.observe(POOL, "MODIFIED", body)
        kube.asked.clear()
        made._reconcile(made._queue.get())
        made._queue.done(PoolKey("team", "demo"))
        assert kube.asked.is_set() == served
        assert len(made._store.pools()) == served
        assert len(made._store.pools(others=True)) == 1, "its bindings may conflict"
    assert made._delays == {}
    made.stop()


def test_a_worker_that_does_not_end_in_time_still_acts(kube, running, pool_body, monkeypatch):
    monkeypatch.setattr(controller, "STOP_SECONDS", 0.01)
    running.observe(POOL, "ADDED", pool_body())
    assert kube.asked.wait(WAIT_SECONDS)
    running.stop()
    assert running.is_active(), "nobody else may begin"
    kube.answers.set()
    monkeypatch.setattr(controller, "STOP_SECONDS", WAIT_SECONDS)
    running.stop()
    assert not running.is_active()


def test_trying_explicit_lac_keeps_nobody_from_managing_it(kube, monkeypatch, pool_body):
    looks, tried = queue.Queue(), threading.Event()
    monkeypatch.setattr(source_clusters.ExplicitLacController, "sync", lambda _: looks.put(None) or WAIT_SECONDS)
    monkeypatch.setattr(source_clusters.ProbeController, "sync", lambda _: tried.wait(WAIT_SECONDS) and 0.0)
    made = Controller(kube, Settings(engine_image="engine"))
    made.start()
    looks.get(timeout=WAIT_SECONDS)
    made.observe(POOL, "ADDED", pool_body())
    looks.get(timeout=WAIT_SECONDS)
    assert not tried.is_set()
    tried.set()
    kube.answers.set()
    made.stop()
