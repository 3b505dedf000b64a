"""Explicit LAC is managed: set where the pool says, reported when somebody else puts it back, put back at deletion."""

import json

import pytest

from devstack.writer.cluster import WriterSpec, up

KEY = "PULSAR_PREFIX_bookkeeperExplicitLacIntervalInMills"
NOTE = "pulsar-readonly.io/explicit-lac"
TARGET = {"configMap": {"name": "pulsar-broker", "key": KEY}, "statefulSet": {"name": "pulsar-broker"}}
RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["pulsar-broker"], "verbs": ["get", "patch"]},
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "resourceNames": ["pulsar-broker"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
]
FINALIZER_RULE = {"apiGroups": ["pulsar-readonly.io"], "resources": ["readonlybrokerpools"], "verbs": ["patch"]}


@pytest.fixture(autouse=True)
def _let_go(operator, namespace):
    """A test that fails leaves a pool with a finalizer, and the operator's rights go with the namespace."""
    yield
    operator.run("patch", "robp", "demo", "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def write_as(kubernetes, manager: str, namespace: str, value: str) -> None:
    """What a GitOps tool does."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pulsar-broker", "namespace": namespace}}
    kubernetes(
        *("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "-f", "-"),
        stdin=json.dumps({**body, "data": {KEY: value, "clusterName": "pulsar"}}),
    )


def stateful_set(namespace: str) -> dict:
    """Owner brokers of which none is wanted: what is set can be seen, and nothing needs to start."""
    labels = {"app": "writer"}
    container = {
        "name": "broker",
        "image": "localhost/no-image:1",
        "envFrom": [{"configMapRef": {"name": "pulsar-broker"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "pulsar-broker", "namespace": namespace},
        "spec": {
            "serviceName": "pulsar-broker",  # Kubernetes 1.30 wants one
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def data(kubernetes, namespace: str) -> tuple[str | None, dict | None]:
    body = kubernetes.get("configmap", "pulsar-broker", namespace)
    note = (body["metadata"].get("annotations") or {}).get(NOTE)
    return body["data"].get(KEY), note and json.loads(note)


def test_the_setting_is_made_watched_and_put_back(operator, writer, namespace, pool, eventually):
    write_as(operator, "helm", namespace, "0")
    operator.apply(stateful_set(namespace))
    operator.grant(namespace, "explicit-lac", FINALIZER_RULE)
    lac = {"management": "Manage", "interval": "50ms", "target": TARGET, "onDeletion": "Restore"}
    operator.apply(pool(replicas=0, explicitLac=lac))

    def forbidden():
        condition = operator.condition("robp", "demo", namespace, "ExplicitLac")
        assert condition["reason"] == "Forbidden"
        assert "verbs [create] on pods/eviction in namespace" in condition["message"]

    eventually(forbidden, 60)
    assert data(operator, namespace) == ("0", None), "nothing is changed before everything is allowed"
    operator.grant(namespace, "explicit-lac", FINALIZER_RULE, *RULES)

    def is_set():
        value, note = data(operator, namespace)
        assert (value, note and note["before"]) == ("50", "0")

    eventually(is_set, 60)
    # the brokers of the source are not those of the target: verifying still sees what they run with
    operator.expect("robp", "demo", namespace, {"ExplicitLac": ("False", "TooSlow")}, timeout=60)
    assert operator.get("robp", "demo", namespace)["status"]["explicitLac"]["intervalMs"] == 50

    write_as(operator, "argocd-controller", namespace, "0")
    message = operator.expect("robp", "demo", namespace, {"ExplicitLac": ("False", "Reverted")}, timeout=60)
    assert "last changed by argocd-controller (" in message["ExplicitLac"]
    assert data(operator, namespace)[0] == "0"
    write_as(operator, "argocd-controller", namespace, "50")
    operator.expect("robp", "demo", namespace, {"ExplicitLac": ("False", "TooSlow")}, timeout=60)

    operator("delete", "robp/demo", "-n", namespace, "--timeout=60s")
    assert data(operator, namespace) == ("0", None)


@pytest.mark.nightly
def test_a_deletion_does_not_wait_for_a_writer_that_is_gone(operator, namespace, pool, eventually):
    write_as(operator, "helm", namespace, "0")
    operator.apply(stateful_set(namespace))
    operator.grant(namespace, "explicit-lac", FINALIZER_RULE, *RULES)
    lac = {"management": "Manage", "target": TARGET, "onDeletion": "Restore"}
    nowhere = {
        "serviceUrl": "pulsar://no-such-broker.nowhere:6650",
        "adminUrl": "http://no-such-broker.nowhere:8080",
        "metadataStoreUrl": "zk:127.0.0.1:9",
    }
    operator.apply(pool(replicas=0, source=nowhere, explicitLac=lac))
    operator.expect("robp", "demo", namespace, {"ExplicitLac": ("Unknown", "SourceUnreachable")}, timeout=60)

    def held():
        assert (
            "pulsar-readonly.io/writable-cluster" in operator.get("robp", "demo", namespace)["metadata"]["finalizers"]
        )

    eventually(held)
    operator("delete", "statefulset/pulsar-broker", "configmap/pulsar-broker", "-n", namespace)
    operator("delete", "robp/demo", "-n", namespace, "--timeout=60s")


@pytest.mark.nightly
def test_a_pool_can_be_a_cluster_in_the_writers_metadata(operator, writer, namespace, pool):
    operator.grant(namespace, "explicit-lac", FINALIZER_RULE)
    name = f"readers-{namespace}"
    operator.apply(pool(replicas=0, lookup={"clusterName": name}))
    operator.expect("robp", "demo", namespace, {"ClusterRegistered": ("True", "Registered")}, timeout=60)

    def clusters(path: str = ""):
        return operator.broker("pulsar-broker-0", writer, f"/admin/v2/clusters{path}")

    assert name in clusters()
    entry = clusters(f"/{name}")
    assert entry["brokerServiceUrl"] == f"pulsar://demo.{namespace}.svc.cluster.local:6650"
    assert entry["listenerName"] == f"pool-{operator.get('robp', 'demo', namespace)['metadata']['uid']}"
    refused = operator.run(
        "patch", "robp", "demo", "-n", namespace, "--type=merge", "-p", '{"spec":{"lookup":{"clusterName":"other"}}}'
    )
    assert "is immutable" in refused.stderr
    operator("delete", "robp/demo", "-n", namespace, "--timeout=60s")
    assert name not in clusters()


@pytest.mark.nightly
def test_it_is_tried_on_a_topic(operator, writer, namespace, pool, binding, eventually):
    """The topic is made, a message is published, and bookies have an explicit LAC for it."""
    topic = f"persistent://public/default/probe-{namespace}"
    operator.apply(pool(replicas=1, explicitLac={"probeTopic": topic}), binding("probe", topic))
    operator.expect("rotb", "probe", namespace, {"Ready": ("True", "Held")}, timeout=120)

    def tried():
        condition = operator.condition("robp", "demo", namespace, "ExplicitLac")
        assert (condition["status"], condition["reason"]) == ("True", "On")
        assert condition["message"].endswith(f"; tried on {topic}: bookies had it"), condition["message"]

    eventually(tried, 90)
    assert operator.broker("demo-0", namespace, f"/explicit-lac?topic={topic}")["explicit"]


def kill_operator(kubernetes) -> None:
    """End the operator at once, and wait for the next one."""
    pods = ("-n", "pulsar-readonly-system", "-l", "app.kubernetes.io/name=pulsar-readonly-operator")
    kubernetes("delete", "pods", *pods, "--force", "--grace-period=0")
    kubernetes("rollout", "status", "deployment/pulsar-readonly-operator", *pods[:2], "--timeout=180s", timeout=200)


@pytest.mark.slow
def test_writable_brokers_are_rolled_once_and_one_by_one(operator, namespace, pool, eventually, own_writer):
    """A writer of the test's own, and an operator that is killed in the middle."""
    operator.grant(namespace, "explicit-lac", FINALIZER_RULE, *RULES)

    def brokers() -> dict[str, str]:
        return {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in operator.list("pods", namespace, "component=broker")
        }

    def intervals() -> list[int]:
        settings = [
            operator.broker(pod, namespace, "/admin/v2/brokers/configuration/runtime") for pod in sorted(brokers())
        ]
        return [int(one["bookkeeperExplicitLacIntervalInMills"]) for one in settings]

    first = brokers()
    assert (len(first), intervals()) == (2, [0, 0])
    lac = {"management": "Manage", "interval": "200ms", "target": TARGET, "onDeletion": "Restore"}
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"component": "broker"}}}
    metadata = {"name": "pulsar-broker", "namespace": namespace}
    operator.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget})
    operator.apply(pool(replicas=0, source=own_writer, explicitLac=lac))

    def held_up():
        condition = operator.condition("robp", "demo", namespace, "ExplicitLac")
        assert (condition["reason"], "PodDisruptionBudget" in condition["message"]) == ("Rolling", True), condition

    eventually(held_up, 120)
    assert (data(operator, namespace)[0], brokers()) == ("200", first)
    operator("delete", "pdb/pulsar-broker", "-n", namespace)

    def one_is_replaced():
        assert brokers()["pulsar-broker-1"] != first["pulsar-broker-1"]

    eventually(one_is_replaced, 120)
    assert brokers()["pulsar-broker-0"] == first["pulsar-broker-0"], "one broker at a time, the last one first"
    kill_operator(operator)
    operator.expect("robp", "demo", namespace, {"ExplicitLac": ("True", "On")}, timeout=400)
    second = brokers()
    assert intervals() == [200, 200]
    assert all(second[name] != first[name] for name in first)

    kill_operator(operator)
    operator("annotate", "robp/demo", "-n", namespace, "again=yes")
    operator.expect("robp", "demo", namespace, {"ExplicitLac": ("True", "On")}, timeout=60)
    assert brokers() == second, "no broker is restarted for nothing"

    operator("delete", "robp/demo", "-n", namespace, "--timeout=400s", timeout=420)
    assert data(operator, namespace) == ("0", None)
    assert all(uid != second[name] for name, uid in brokers().items())


@pytest.fixture
def own_writer(kubernetes, namespace):
    """A source Pulsar with explicit LAC off, in the test's namespace; its URLs."""
    made = up(WriterSpec(namespace, explicit_lac_ms=0))
    return {"serviceUrl": made.service_url, "adminUrl": made.admin_url, "metadataStoreUrl": made.metadata_store}
