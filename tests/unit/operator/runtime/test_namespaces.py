"""The controller follows labels of namespaces: by events where it may watch them, else by lists and reads."""

import copy

import kopf
import pytest
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import BINDING, NAMESPACE, POOL
from readonly_operator.kube.names import PoolKey
from readonly_operator.runtime import handlers
from readonly_operator.runtime.controller import Controller
from readonly_operator.settings import Settings

DEMO = PoolKey("team", "demo")


class Namespaces:
    """An API server that has namespaces, a pool and a binding of another namespace."""

    def __init__(self, objects):
        self.objects = objects
        self.namespaces = {}
        self.refusal = 0
        self.asked = []
        self.rights = []

    def set(self, name, version, **labels):
        self.namespaces[name] = {"metadata": {"name": name, "resourceVersion": str(version), "labels": labels}}
        return self.namespaces[name]

    def list(self, kind, namespace):
        if kind == NAMESPACE:
            self.asked.append(namespace)
            if self.refusal:
                raise KubeError("namespaces is forbidden", self.refusal)
            return list(self.namespaces.values())
        return self.objects.get(kind, [])

    def get(self, kind, namespace, name):
        assert (kind, namespace) == (NAMESPACE, "")
        self.asked.append(name)
        if self.refusal:
            raise KubeError("namespaces is forbidden", self.refusal)
        return self.namespaces.get(name)

    def serves(self, kind, namespace):
        return True

    def may(self, right):
        self.rights.append(right)
        return not self.refusal


@pytest.fixture
def kube(pool_body, binding_body):
    binding = copy.deepcopy(binding_body())
    binding["metadata"]["namespace"] = "shop"
    binding["spec"]["poolRef"]["namespace"] = "team"
    return Namespaces({POOL: [pool_body()], BINDING: [binding]})


@pytest.fixture
def controller(kube):
    """A controller that is not started: no worker takes what is queued."""

    def make(*namespaces):
        made = Controller(kube, Settings(engine_image="engine", namespaces=namespaces))
        made.resync()
        while made._queue.get(timeout=0) is not None:
            pass
        for key in list(made._queue._busy):
            made._queue.done(key)
        return made

    return make


def queued(controller):
    return set(controller._queue._due)


def test_a_changed_label_reconciles_the_pools_that_its_bindings_name(kube, controller):
    kube.set("shop", 1, tier="gold")
    made = controller()
    made.observe(NAMESPACE, "MODIFIED", kube.set("shop", 2, tier="gold"))
    made.observe(NAMESPACE, "ADDED", kube.set("web", 3, tier="gold"))
    assert queued(made) == set(), "nothing that counts has changed"
    made.observe(NAMESPACE, "MODIFIED", kube.set("shop", 4))
    assert queued(made) == {DEMO}
    assert made._store.namespaces.labels("shop") == {}


def test_a_deleted_namespace_has_no_labels(kube, controller):
    made = controller()
    made.observe(NAMESPACE, "ADDED", kube.set("shop", 2, tier="gold"))
    made.observe(NAMESPACE, "DELETED", kube.namespaces["shop"])
    assert made._store.namespaces.labels("shop") is None


def test_single_namespaces_are_read_one_by_one(kube, controller):
    kube.set("shop", 1, tier="gold")
    made = controller("shop", "team")
    assert kube.asked == ["shop", "team"], "its Role shows these only"
    assert made._store.namespaces.labels("shop") == {"tier": "gold"}
    assert not made.may_watch_namespaces()
    assert kube.rights == []


def test_an_operator_without_the_right_goes_on_without_labels(kube, controller):
    kube.refusal = 403
    made = controller()
    assert made._store.namespaces.problem == "namespaces is forbidden"
    assert not made.may_watch_namespaces(), "kopf would end the process"
    kube.refusal = 0
    kube.set("shop", 1, tier="gold")
    made.resync()
    assert (made._store.namespaces.problem, made._store.namespaces.labels("shop")) == ("", {"tier": "gold"})
    assert made.may_watch_namespaces()
    assert (kube.rights[-1].verb, kube.rights[-1].resource, kube.rights[-1].namespace) == ("watch", "namespaces", "")


@pytest.mark.parametrize(("status", "raises"), [(403, False), (500, True)])
def test_an_operator_that_may_not_ask_for_its_rights_starts_all_the_same(kube, controller, monkeypatch, status, raises):
    def may(right):
        raise KubeError("selfsubjectaccessreviews is forbidden", status)

    made = controller()
    monkeypatch.setattr(kube, "may", may)
    if raises:
        with pytest.raises(KubeError):
            made.may_watch_namespaces()
    else:
        assert not made.may_watch_namespaces()


def test_an_error_that_passes_is_not_taken_for_a_refusal(kube, controller):
    made = controller()
    kube.refusal = 500
    with pytest.raises(KubeError):
        made.resync()
    assert made._store.namespaces.problem == ""


def test_namespaces_are_watched_once_in_a_process(monkeypatch):
    watched = []
    monkeypatch.setattr(kopf.on, "event", lambda *selector: watched.append(selector) or (lambda handler: handler))
    handlers.watch_namespaces.cache_clear()
    handlers.watch_namespaces()
    handlers.watch_namespaces()
    assert watched == [("", "v1", "namespaces")]
    handlers.watch_namespaces.cache_clear()
