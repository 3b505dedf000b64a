"""The operator and a real API server, with Kubernetes' controllers of StatefulSets and of owners, and without nodes.

Edits of a pool's objects by others change neither its identity nor its settings, and roll no brokers.
"""

import contextlib
import datetime as dt
import functools
import os
import uuid
from pathlib import Path

import pytest
from readonly_operator.kube.names import ANNOTATION_LOCALITY, ANNOTATION_POOL_UID, LABEL_POOL

from longtests.scale import audit
from longtests.scale.control_plane import ScaleError, control_plane
from longtests.scale.installing import install
from longtests.scale.objects import API
from longtests.scale.operator_process import LOOKS, operator
from tests.e2e.kubernetes import equal, eventually

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
FIRST_PORT = 23790
CONTROLLERS = ("statefulset-controller", "garbage-collector-controller")
SECONDS = 90.0
ZONE = {"topology.kubernetes.io/zone": "a"}
FORMER, CHANGED = {"cache": {"size": "256Mi"}}, {"cache": {"size": "64Mi"}}
HOLD = {"updateStrategy": {"hold": True}}
RECORDS = ("brokerConfig", "membershipUid", "source")

until = functools.partial(eventually, timeout=SECONDS)


def source(store="zk:127.0.0.1:1", **fields):
    urls = {"serviceUrl": "pulsar://127.0.0.1:1", "adminUrl": "http://127.0.0.1:1", "metadataStoreUrl": store}
    return {"source": {**urls, **fields}}


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with control_plane(tmp_path_factory.mktemp("plane"), FIRST_PORT, CONTROLLERS) as made:
        install(made.client(), [], ROOT)
        yield made


@pytest.fixture
def started(plane):
    """Starts an operator; it ends with the context."""
    return lambda: operator(plane, ROOT, "engine:1", 1)


class Team:
    """A namespace, and the objects of the pool demo in it."""

    def __init__(self, client):
        self._client = client
        self.name = f"team-{uuid.uuid4().hex[:8]}"
        client.create([("/api/v1/namespaces", {"metadata": {"name": self.name}})])

    def path(self, kind, name=""):
        group = {"statefulsets": "/apis/apps/v1", "readonlybrokerpools": API}.get(kind, "/api/v1")
        return f"{group}/namespaces/{self.name}/{kind}" + (f"/{name}" if name else "")

    def get(self, kind, name="demo"):
        """One object; LookupError for none."""
        try:
            return self._client.request("GET", self.path(kind, name))
        except ScaleError as error:
            raise LookupError(str(error)) from None

    def merge(self, kind, name, patch, part=""):
        self._client.merge([(self.path(kind, name) + part, patch)])

    def delete(self, kind, name, policy="Background"):
        self._client.request("DELETE", self.path(kind, name), {"propagationPolicy": policy})

    def create_pool(self, **spec):
        body = {"apiVersion": "pulsar-readonly.io/v1beta1", "kind": "ReadOnlyBrokerPool", "metadata": {"name": "demo"}}
        self._client.create([(self.path("readonlybrokerpools"), {**body, "spec": {"replicas": 1, **spec}})])

    def has_no_pool(self):
        with contextlib.suppress(LookupError):
            raise AssertionError(self.get("readonlybrokerpools")["metadata"])

    def spec(self, **spec):
        self.merge("readonlybrokerpools", "demo", {"spec": spec})

    def create_pod(self, body):
        self._client.create([(self.path("pods"), body)])

    def settings(self):
        return self.get("configmaps", "demo-config")["data"]["engine.yaml"]

    def config(self):
        """Settings, identity and label of demo-config."""
        metadata = self.get("configmaps", "demo-config")["metadata"]
        return self.settings(), metadata["annotations"][ANNOTATION_POOL_UID], metadata["labels"][LABEL_POOL]

    def condition(self, kind):
        """Status and reason of a condition about the newest spec; LookupError for none."""
        body = self.get("readonlybrokerpools")
        found = {one["type"]: one for one in (body.get("status") or {}).get("conditions") or ()}
        if kind not in found or found[kind]["observedGeneration"] != body["metadata"]["generation"]:
            raise LookupError(kind)
        return found[kind]["status"], found[kind]["reason"]

    def brokers(self):
        """Generation of the StatefulSet, the uid in its arguments, and its pod's uid: other brokers have others."""
        body = self.get("statefulsets")
        arguments = body["spec"]["template"]["spec"]["containers"][0]["args"]
        given = arguments[arguments.index("--pool-uid") + 1]
        assert body["status"].get("observedGeneration") == body["metadata"]["generation"]
        return body["metadata"]["generation"], given, self.get("pods", "demo-0")["metadata"]["uid"]

    def wait_for(self, kind, *expected):
        until(lambda: equal(self.condition(kind), expected))


@pytest.fixture
def team(plane):
    return Team(plane.client())


def repaired(read, wanted):
    """Waits until a value is what it should be."""

    until(lambda: equal(read(), wanted))


def edit_annotation(team):
    team.merge("configmaps", "demo-config", {"metadata": {"annotations": {ANNOTATION_POOL_UID: "evil"}}})


def remove_label(team):
    team.merge("configmaps", "demo-config", {"metadata": {"labels": {LABEL_POOL: None}}})


def remove(team):
    team.delete("configmaps", "demo-config")


def edit_settings(team):
    team.merge("configmaps", "demo-config", {"data": {"engine.yaml": "nonsense"}})


HARMS = (edit_annotation, remove_label, remove, edit_settings)


def all_harms(team, brokers, uid, settings):
    for harm in HARMS:
        before = team.get("configmaps", "demo-config")["metadata"]["resourceVersion"]
        harm(team)
        repaired(team.config, (settings, uid, "demo"))
        assert team.get("configmaps", "demo-config")["metadata"]["resourceVersion"] != before
        assert team.brokers() == brokers, harm.__name__


def forget_records(team):
    """An operator of before the records has written this status."""
    team.merge("readonlybrokerpools", "demo", {"status": dict.fromkeys(RECORDS)}, "/status")


def test_a_pool_keeps_identity_and_settings(team, started):
    """The three edits, of a pool that has adopted the brokers of a deleted one, and while its update is held."""
    team.create_pool(**source(), **FORMER)
    with started():
        generation, uid, _ = until(team.brokers)
        settings = team.settings()
        assert "cache-size: 256MiB" in settings
        all_harms(team, team.brokers(), uid, settings)

        team.delete("readonlybrokerpools", "demo", "Orphan")

        until(team.has_no_pool)
        team.create_pool(**source(), **FORMER)
        repaired(
            lambda: team.get("statefulsets")["metadata"].get("ownerReferences", [{}])[0].get("uid"),
            team.get("readonlybrokerpools")["metadata"]["uid"],
        )
        assert team.get("readonlybrokerpools")["metadata"]["uid"] != uid
        assert until(team.brokers)[:2] == (generation, uid)
        all_harms(team, team.brokers(), uid, settings)

        team.spec(**CHANGED, **HOLD)
        team.wait_for("UpdateHeld", "True", "Held")
        held = until(team.brokers)
        all_harms(team, held, uid, settings)
    # while no operator runs
    remove(team)
    with started():
        repaired(team.settings, settings)
        assert team.brokers() == held
        team.spec(updateStrategy=None)

        def released():
            assert "cache-size: 64MiB" in team.settings()

        until(released)


@pytest.mark.parametrize("held", [False, True])
def test_a_pool_of_an_operator_without_records_keeps_its_brokers(team, started, held):
    team.create_pool(**source(), **FORMER)
    with started():
        until(team.brokers)
        if held:
            team.spec(**CHANGED, **HOLD)
            team.wait_for("UpdateHeld", "True", "Held")
        before, settings = until(team.brokers), team.settings()
    forget_records(team)
    with started():

        def recorded():
            assert set(RECORDS) <= set(team.get("readonlybrokerpools")["status"])

        until(recorded)
        assert team.brokers() == before
        assert team.settings() == settings
        all_harms(team, before, before[1], settings)


def running(team, name):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    team.merge("pods", name, {"status": {"phase": "Running", "conditions": [ready]}}, "/status")


def test_a_copy_of_a_broker_is_none(team, started):
    team.create_pool(**source())
    with started():
        until(team.brokers)
        body = team.get("pods", "demo-0")
        labels = {**body["metadata"]["labels"], **ZONE}
        copied = {"metadata": {"name": "copy-of-demo-0", "labels": labels}, "spec": body["spec"]}
        copied["spec"]["nodeName"] = "node"
        team.create_pod(copied)
        team.merge("pods", "demo-0", {"metadata": {"labels": ZONE}})
        for name in ("copy-of-demo-0", "demo-0"):
            running(team, name)
        team.wait_for("Ready", "True", "BrokersReady")
        team.merge("pods", "copy-of-demo-0", {"metadata": {"annotations": {"touched": "yes"}}})
        team.merge("readonlybrokerpools", "demo", {"spec": {"logLevel": "info"}})
        team.wait_for("Ready", "True", "BrokersReady")
        assert team.get("readonlybrokerpools")["status"]["readyReplicas"] == 1
        annotations = team.get("pods", "copy-of-demo-0")["metadata"].get("annotations", {})
        assert ANNOTATION_LOCALITY not in annotations


EMPTY_VALUES = {
    "env": [{"name": "EMPTY", "value": ""}],
    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": ""}],
    "volumes": [
        {"name": "scratch", "emptyDir": {"medium": ""}},
        {"name": "files", "configMap": {"name": "files", "items": [], "optional": False}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "claim", "readOnly": False}},
    ],
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "subPath": "", "readOnly": False}],
    "affinity": {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "namespaces": [],
                    "labelSelector": {"matchLabels": {}, "matchExpressions": []},
                }
            ]
        },
    },
}
PEERS = [{"podSelector": {"matchLabels": {}}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": []}}]


def test_values_that_the_api_server_drops_cost_no_request(team, started, plane):
    team.create_pool(**source(), podTemplate=EMPTY_VALUES, networkPolicy={"clients": PEERS})
    with started() as process:
        team.wait_for("Ready", "False", "BrokersNotReady")

        def reconcile(times):
            for number in range(times):
                begin = process.metrics()[LOOKS]
                team.merge(
                    "readonlybrokerpools", "demo", {"metadata": {"annotations": {"touched": f"{times}.{number}"}}}
                )

                def seen(more=begin + 1):
                    assert process.metrics()[LOOKS] >= more

                until(seen)

        reconcile(2)
        began = audit.now()
        reconcile(3)
        found = audit.between(plane.audit_log, began, audit.now() + dt.timedelta(seconds=1))
        assert [one for one in found if one in {"patch statefulsets", "patch networkpolicies"}] == []
        # and an edit of such a field is repaired
        container = {"name": "broker", "env": [{"name": "EMPTY", "value": "full"}]}
        path = team.path("statefulsets", "demo")
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        plane.client().request("PATCH", path, patch, "application/strategic-merge-patch+json")

        def empty_again():
            env = team.get("statefulsets")["spec"]["template"]["spec"]["containers"][0]["env"]
            assert {"name": "EMPTY"} in env

        until(empty_again)


REST_SECONDS = float(os.environ.get("PULSAR_READONLY_REST_SECONDS", "30"))
"""How long nothing may be requested; 600 for the interval of whole lists."""
AT_REST = {"list", "watch"}


def test_max_unavailable_then_on_delete_and_nothing_is_requested_at_rest(team, started, plane, measured):
    def requests(begin):
        found = audit.between(plane.audit_log, begin, audit.now())
        return {one: count for one, count in found.items() if one.split()[0] not in AT_REST and "leases" not in one}

    def wait_for_rest():
        until(lambda: equal(requests(audit.now() - dt.timedelta(seconds=5)), {}))

    def rest():
        wait_for_rest()
        begin = audit.now()

        def over():
            assert audit.now() - begin >= dt.timedelta(seconds=REST_SECONDS)

        until(over, timeout=REST_SECONDS + 10)
        return requests(begin)

    team.create_pool(**source(), replicas=2, updateStrategy={"maxUnavailable": "50%"})
    with started():

        def told():
            conditions = {one["type"]: one for one in team.get("readonlybrokerpools")["status"]["conditions"]}
            ignored = "ignores spec.updateStrategy.maxUnavailable" in conditions["Progressing"]["message"]
            rolling = team.get("statefulsets")["spec"]["updateStrategy"].get("rollingUpdate", {})
            assert ignored != ("maxUnavailable" in rolling)
            return conditions["Progressing"]["message"] if ignored else "used"

        measured(f"maxUnavailable: 50%: {until(told)}")
        assert rest() == {}
        team.spec(updateStrategy={"type": "OnDelete", "maxUnavailable": None})

        until(lambda: equal(team.get("statefulsets")["spec"]["updateStrategy"], {"type": "OnDelete"}))
        team.wait_for("Ready", "False", "BrokersNotReady")
        assert rest() == {}
        measured(f"requests of the operator in 2 x {REST_SECONDS:g} s, but for lists, watches and its Lease: 0")
