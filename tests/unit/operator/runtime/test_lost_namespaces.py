"""A served namespace that cannot be read: the operator continues with the others, and takes it up again when it can be read."""

import copy
import itertools
import logging

import pytest
from prometheus_client import REGISTRY
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import BINDING, NAMESPACE, POOL, STATEFUL_SET
from readonly_operator.kube.names import PoolKey
from readonly_operator.runtime import controller
from readonly_operator.runtime.controller import Controller
from readonly_operator.runtime.kopf_retries import RETRY_SECONDS, Backoffs, RetryFilter
from readonly_operator.settings import Settings

from tests.support.waiting import wait_until

BILLING, ORDERS = PoolKey("billing", "demo"), PoolKey("orders", "demo")
METRIC = "pulsar_readonly_operator_namespace_readable"


class Cluster:
    """An API server with a pool and a binding in each of two namespaces; reads of some namespaces are refused."""

    def __init__(self, pool_body, binding_body):
        self.refused = {}
        self.asked = []
        self.written = []
        self.objects = {(kind, name): [] for kind in (POOL, BINDING) for name in ("billing", "orders")}
        for (kind, name), bodies in self.objects.items():
            body = copy.deepcopy(pool_body() if kind == POOL else binding_body())
            body["metadata"]["namespace"] = name
            body["metadata"]["uid"] += name
            bodies.append(body)

    def _check(self, kind, namespace):
        self.asked.append((kind, namespace))
        refused = self.refused.get(namespace) or self.refused.get((kind, namespace))
        if refused:
            raise KubeError(f'{kind.plural} is forbidden in the namespace "{namespace}"', refused)

    def serves(self, kind, namespace):
        self._check(kind, namespace)
        return True

    def list(self, kind, namespace):
        self._check(kind, namespace)
        names = ["billing", "orders"] if namespace is None else [namespace]
        return [body for name in names for body in self.objects.get((kind, name), [])]

    def get(self, kind, namespace, name):
        if kind != NAMESPACE:
            return None
        self._check(kind, name)
        return {"metadata": {"name": name, "resourceVersion": "1", "labels": {"tier": name}}}

    def apply(self, manifest):
        return self.apply_status(manifest)

    def apply_status(self, manifest):
        self.written.append((manifest["kind"], manifest["metadata"]["namespace"]))
        raise KubeError("quota", 500)


@pytest.fixture
def kube(pool_body, binding_body):
    return Cluster(pool_body, binding_body)


@pytest.fixture
def make(kube):
    """A controller of these namespaces that is not started: no worker takes what is queued."""

    def made(*namespaces):
        return Controller(kube, Settings(engine_image="engine", namespaces=namespaces))

    return made


@pytest.fixture
def start(make, monkeypatch):
    """A started controller; ended after the test."""
    monkeypatch.setattr(controller, "SCOPE_SECONDS", 0.01)
    monkeypatch.setattr(controller, "RELIST_SECONDS", 0.01)
    started = []

    def start(*namespaces):
        started.append(make(*namespaces))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


def pools(made):
    return {body["metadata"]["namespace"] for body in made._store.pools()}


def readable(name):
    return REGISTRY.get_sample_value(METRIC, {"name": name})


def test_the_operator_starts_without_a_namespace_that_is_gone_and_takes_it_up_later(kube, start, caplog):
    caplog.set_level(logging.INFO)
    kube.refused["orders"] = 403
    made = start("billing", "orders")
    assert pools(made) == {"billing"}
    assert (readable("billing"), readable("orders")) == (1, 0)
    lost = [line for line in caplog.messages if "namespace not readable" in line]
    assert len(lost) == 1, "once, not at each try"
    assert "namespace=orders" in lost[0]
    assert "is forbidden" in lost[0]
    kube.refused.clear()
    wait_until(lambda: "namespace readable again: namespace=orders" in caplog.text)
    assert pools(made) == {"billing", "orders"}
    assert readable("orders") == 1


def test_an_operator_that_may_read_no_namespace_says_so_at_its_start(kube, make):
    kube.refused |= {"billing": 403, "orders": 403}
    with pytest.raises(KubeError, match="forbidden"):
        make("billing", "orders").start()
    kube.refused = {None: 403}
    with pytest.raises(KubeError, match="forbidden"):
        make().start()


@pytest.mark.parametrize("status", [401, 500])
def test_other_refusals_are_not_taken_for_a_lost_namespace(kube, make, status):
    kube.refused["orders"] = status
    with pytest.raises(KubeError):
        make("billing", "orders").resync()
    assert readable("orders") == 1


def test_a_refused_watch_makes_the_operator_check_its_namespaces(kube, start):
    made = start("billing", "orders")
    kube.refused["orders"] = 403
    made.watch_refused()
    wait_until(lambda: readable("orders") == 0)
    assert pools(made) == {"billing", "orders"}, "its brokers run on, and its bindings may be in use"
    assert made._store.namespaces.labels("orders") == {"tier": "orders"}
    assert made.alive()
    kube.refused.clear()
    kube.objects[POOL, "orders"].clear()
    wait_until(lambda: readable("orders") == 1)
    assert pools(made) == {"billing"}, "deletions that no watch reported are found"


@pytest.mark.parametrize("refused", ["orders", (STATEFUL_SET, "orders")])
def test_a_list_finds_a_lost_namespace_too(kube, make, refused):
    made = make("billing", "orders")
    made.resync()
    kube.refused[refused] = 403
    kube.objects[BINDING, "billing"].clear()
    made.resync()
    assert (readable("billing"), readable("orders")) == (1, 0)
    assert {body["metadata"]["namespace"] for body in made._store.bindings()} == {"orders"}
    for _ in range(2):
        made.resync()
        assert readable("orders") == 0, "it is not regained and lost again"


def test_nothing_is_written_to_a_lost_namespace(kube, make, binding_body):
    foreign = copy.deepcopy(binding_body("foreign"))
    foreign["metadata"]["namespace"] = "orders"
    foreign["spec"]["poolRef"]["namespace"] = "billing"
    kube.objects[BINDING, "orders"].append(foreign)
    made = make("billing", "orders")
    made.resync()
    kube.refused["orders"] = 403
    made.resync()
    made._reconcile(ORDERS)
    assert kube.written == []
    made._reconcile(BILLING)
    assert {namespace for _, namespace in kube.written} == {"billing"}


def test_bindings_of_a_pool_in_a_lost_namespace_say_so(kube, make, binding_body):
    foreign = copy.deepcopy(binding_body("foreign"))
    foreign["metadata"]["namespace"] = "billing"
    foreign["spec"]["poolRef"]["namespace"] = "orders"
    kube.objects[BINDING, "billing"].append(foreign)
    kube.refused["orders"] = 403
    made, said = make("billing", "orders"), []
    kube.apply_status = lambda manifest: said.append(manifest["status"]["conditions"][0]) or manifest
    made.resync()
    made._reconcile(ORDERS)
    assert [one["reason"] for one in said] == ["NamespaceNotServed"]
    assert "may not read namespace orders" in said[0]["message"]


def test_a_request_of_kopf_is_tried_for_ever_and_each_failure_is_noted():
    failures = []
    delays = list(itertools.islice(iter(Backoffs(lambda: failures.append(None))), 9))
    assert delays == [*RETRY_SECONDS, *[RETRY_SECONDS[-1]] * 4]
    assert len(failures) == 8, "the first delay is taken before the first try"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Request attempt #1 failed; will retry: GET x -> APIForbiddenError()", True),
        ("Request attempt #2 failed; will retry: GET x -> APIForbiddenError()", False),
        ("Request attempt #11 failed; will retry: GET x -> APIForbiddenError()", False),
        ("Request attempt #2 failed; escalating: GET x -> APIForbiddenError()", True),
        ("Request attempt #12 succeeded: GET x", True),
    ],
)
def test_only_the_first_failed_try_of_a_watch_is_logged(text, kept):
    assert RetryFilter().filter(logging.LogRecord("kopf", logging.ERROR, "", 1, text, (), None)) is kept
