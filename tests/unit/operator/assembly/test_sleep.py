"""Sleep of a pool: its phases by what is observed, and whole cycles of reconciles."""

from types import SimpleNamespace

import pytest
from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.assembly.sleep import Observed, Sleep, next_phase
from readonly_operator.kube.kinds import AUTOSCALER, BINDING, POD, POOL, SERVICE_ACCOUNT, STATEFUL_SET
from readonly_operator.kube.names import LABEL_POOL, PoolKey

from tests.support.played_http import played_http

DEMO = PoolKey("team", "demo")
AFTER = 600.0
LONG, SHORT = AFTER, AFTER - 0.1


def observed(replicas=2, leads_to_waker=False, waker_ready=False, ready_brokers=2, idle=None, exists=True, silent=""):
    return Observed(exists, replicas, leads_to_waker, waker_ready, ready_brokers, idle, silent)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (observed(exists=False, replicas=0, ready_brokers=0), Phase.AWAKE),
        (observed(idle=SHORT), Phase.AWAKE),
        (observed(idle=None, silent="demo-0 is not ready"), Phase.AWAKE),
        (observed(idle=SHORT, waker_ready=True), Phase.AWAKE),
        (observed(idle=None, waker_ready=True), Phase.AWAKE),
        (observed(idle=LONG), Phase.FALLING_ASLEEP),
        (observed(idle=LONG, waker_ready=True), Phase.ASLEEP),
        (observed(replicas=0, leads_to_waker=True, waker_ready=True, ready_brokers=0), Phase.ASLEEP),
        (observed(replicas=0, leads_to_waker=True, waker_ready=False, ready_brokers=0), Phase.WAKING),
        # brokers that drain still count as pods that are deleted; a stray ready one must not keep a client waiting
        (observed(replicas=0, leads_to_waker=True, waker_ready=False, ready_brokers=1), Phase.WAKING),
        (observed(leads_to_waker=True, ready_brokers=0), Phase.WAKING),
        (observed(leads_to_waker=True, ready_brokers=0, waker_ready=True), Phase.WAKING),
        (observed(leads_to_waker=True, ready_brokers=1), Phase.AWAKE),
        # somebody has deleted the StatefulSet of a pool that sleeps: it cannot be told from a new pool
        (observed(exists=False, replicas=0, leads_to_waker=True, waker_ready=True), Phase.AWAKE),
        # a pool that was stopped with replicas 0 before it could sleep
        (observed(replicas=0, ready_brokers=0, idle=None), Phase.AWAKE),
    ],
)
def test_the_phase_follows_from_what_is_there(state, phase):
    assert next_phase(state, AFTER) is phase
    condition = Sleep.of(state, AFTER).condition
    assert (condition.type, condition.reason) == ("Asleep", phase.value)
    assert condition.status.value == str(phase is Phase.ASLEEP)
    assert state.silent in condition.message


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        (observed(idle=0.0), 30.0),
        (observed(idle=AFTER - 12), 12.0),
        (observed(idle=SHORT), 1.0),
        (observed(idle=None), 30.0),
        (observed(idle=LONG), 30.0),
        (observed(leads_to_waker=True, ready_brokers=0), 30.0),
        (observed(replicas=0, leads_to_waker=True, waker_ready=True, ready_brokers=0), 0.0),
    ],
)
def test_brokers_are_asked_again_when_the_pool_may_sleep(state, seconds):
    assert Sleep.of(state, AFTER).check_seconds == pytest.approx(seconds)


@pytest.fixture
def broker(monkeypatch):
    """The brokers of a pool, which all have one address; `idle` is their answer to /idle, None if they do not know the path."""
    made = SimpleNamespace(idle=0.0)

    def answer(request):
        if request.path != "/idle":
            return 200, {"revision": "r0", "bindings": [], "error": None}
        return (404 if made.idle is None else 200), {"seconds": made.idle}

    with played_http(answer) as port:
        monkeypatch.setattr("readonly_operator.kube.http_ports.PORT_HTTP", port)
        yield made


class Cluster:
    """The controllers of Kubernetes, as far as they concern a pool, played by the test."""

    def __init__(self, server, context, put):
        self.server, self.context, self.put = server, context, put

    def reconcile(self):
        outcome = reconcile(self.context, DEMO)
        for name in self.server.deleted:
            for kind in (STATEFUL_SET, SERVICE_ACCOUNT) if name == "demo-waker" else (AUTOSCALER,):
                if (kind.kind, name) in self.server.objects:
                    self.context.store.remove(kind, self.server.objects.pop((kind.kind, name)))
        self.server.deleted.clear()
        return outcome

    @property
    def phase(self):
        conditions = self.server.status(POOL, "demo")["conditions"]
        return next(one["reason"] for one in conditions if one["type"] == "Asleep")

    def reason(self, kind, name, condition="Ready"):
        conditions = self.server.status(kind, name)["conditions"]
        return next((one["status"], one["reason"]) for one in conditions if one["type"] == condition)

    def waker(self, *, ready):
        self.put(STATEFUL_SET, self.server.objects["StatefulSet", "demo-waker"], readyReplicas=int(ready))

    def brokers(self, count, *, ready=True):
        for name in [name for kind, name in self.server.objects if kind == "Pod"]:
            self.context.store.remove(POD, self.server.objects.pop(("Pod", name)))
        for ordinal in range(count):
            name = f"demo-{ordinal}"
            metadata = {"name": name, "namespace": "team", "uid": f"{name}-{self.server.versions}"}
            metadata["labels"] = {LABEL_POOL: "demo"}
            conditions = [{"type": "Ready", "status": str(ready)}]
            status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": conditions}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}}
            self.put(POD, {**pod, "status": status})

    @property
    def there(self):
        """Number of brokers, and whether the Service leads to the waker."""
        selector = self.server.objects["Service", "demo"]["spec"]["selector"]
        to_waker = selector["app.kubernetes.io/name"] == "pulsar-readonly-waker"
        return self.server.objects["StatefulSet", "demo"]["spec"]["replicas"], to_waker


@pytest.fixture
def cluster(server, context, put):
    server.refuses = server.refuses_patches = False
    server.annotate = lambda *_: None
    return Cluster(server, context, put)


def test_a_pool_sleeps_and_wakes_again_and_again(cluster, server, put, pool_body, binding_body, broker):
    put(POOL, pool_body(replicas=2, scaleToZero={}, autoscaling={"maxReplicas": 3, "targetConnections": 5}))
    put(BINDING, binding_body())
    cluster.reconcile()
    for _ in range(3):
        cluster.brokers(2)
        broker.idle = 599.0
        outcome = cluster.reconcile()
        assert (cluster.phase, cluster.there) == ("Awake", (2, False))
        assert 0 < outcome.refresh_seconds <= 1
        assert ("StatefulSet", "demo-waker") not in server.objects
        broker.idle = 600.0
        cluster.reconcile()
        assert (cluster.phase, cluster.there) == ("FallingAsleep", (2, False))
        assert ("HorizontalPodAutoscaler", "demo") not in server.objects
        cluster.waker(ready=True)
        cluster.reconcile()
        assert (cluster.phase, cluster.there) == ("Asleep", (0, True))
        cluster.brokers(0)
        cluster.reconcile()
        assert (cluster.phase, cluster.there) == ("Asleep", (0, True))
        assert cluster.reason(POOL, "demo") == cluster.reason(BINDING, "orders") == ("True", "Asleep")
        assert cluster.reason(BINDING, "orders", "LookupConfigured") == ("Unknown", "Asleep")
        before = server.versions
        assert cluster.reconcile().refresh_seconds == 0
        assert server.versions == before, "a pool that sleeps costs no request"
        cluster.waker(ready=False)  # a client needs the pool
        cluster.reconcile()
        assert (cluster.phase, cluster.there) == ("Waking", (2, True))
        assert server.objects["Service", "demo"]["spec"]["publishNotReadyAddresses"], (
            "the waker holds later clients, too"
        )
        cluster.brokers(2, ready=False)
        cluster.waker(ready=True)  # the client went away
        cluster.reconcile()
        assert (cluster.phase, cluster.there) == ("Waking", (2, True))
        cluster.brokers(2)
        broker.idle = 1.0
        cluster.reconcile()
        assert (cluster.phase, cluster.there) == ("Awake", (2, False))
        assert "publishNotReadyAddresses" not in server.objects["Service", "demo"]["spec"]
        assert ("HorizontalPodAutoscaler", "demo") in server.objects


@pytest.mark.parametrize("problem", ["old image", "not ready", "no address"])
def test_a_pool_whose_broker_does_not_say_that_it_is_idle_stays_awake(cluster, server, put, pool_body, broker, problem):
    put(POOL, pool_body(replicas=1, scaleToZero={"after": "10s"}))
    cluster.reconcile()
    broker.idle = None if problem == "old image" else 1000.0
    cluster.brokers(1, ready=problem != "not ready")
    if problem == "no address":
        broker.idle = "much"
    cluster.reconcile()
    assert (cluster.phase, cluster.there) == ("Awake", (1, False))
    conditions = server.status(POOL, "demo")["conditions"]
    message = next(one["message"] for one in conditions if one["type"] == "Asleep")
    words = {"old image": "/idle: HTTP 404", "not ready": "demo-0 is not ready", "no address": "not a broker's"}
    assert words[problem] in message


@pytest.mark.parametrize("spec", [{"replicas": 0}, {"replicas": 0, "autoscaling": {"maxReplicas": 3}}])
def test_a_pool_that_an_autoscaler_has_stopped_can_wake(cluster, put, pool_body, broker, spec):
    put(POOL, pool_body(resources={"requests": {"cpu": "1"}}, scaleToZero={}, **spec))
    cluster.reconcile()
    assert cluster.there == (1, False)


def fall_asleep(cluster, put, pool_body, broker):
    put(POOL, pool_body(replicas=1, scaleToZero={}))
    cluster.reconcile()
    cluster.brokers(1)
    broker.idle = 600.0
    cluster.reconcile()
    cluster.waker(ready=True)
    cluster.reconcile()


def test_a_pool_that_may_not_sleep_any_more_wakes(cluster, server, put, pool_body, broker):
    fall_asleep(cluster, put, pool_body, broker)
    assert cluster.there == (0, True)
    put(POOL, {**pool_body(replicas=1), "status": server.status(POOL, "demo")})
    cluster.reconcile()
    assert cluster.there == (1, False)
    assert ("StatefulSet", "demo-waker") not in server.objects


def test_a_waker_that_disappears_wakes_the_pool(cluster, server, put, pool_body, broker):
    fall_asleep(cluster, put, pool_body, broker)
    cluster.context.store.remove(STATEFUL_SET, server.objects.pop(("StatefulSet", "demo-waker")))
    cluster.reconcile()
    assert (cluster.phase, cluster.there) == ("Waking", (1, True))
