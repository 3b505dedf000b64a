"""The demo, step by step: clusters, operator, pool and binding, clients."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from readonly_engine.demo import clients as client_program
from readonly_engine.demo.report import SubscriptionResult, dispatched_by_subscription, subscription_result

from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.images.builders import build, load
from devstack.images.targets import PROJECT, TARGETS
from devstack.kube.choice import DEFAULT_NAME, choose
from devstack.pulsar.spec import OXIA, ZOOKEEPER
from devstack.writer.cluster import WriterSpec
from devstack.writer.cluster import up as writer_up

if TYPE_CHECKING:
    from devstack.kube.kubectl import Kubectl

EXAMPLES = {
    ZOOKEEPER: PROJECT / "examples" / "quickstart.yaml",
    OXIA: PROJECT / "examples" / "quickstart-oxia.yaml",
}
"""The pool and the binding, by the metadata store of the source cluster."""
OPERATOR = PROJECT / "manifests" / "overlays" / "devstack"
OPERATOR_NAMESPACE = "pulsar-readonly-system"
CLIENT_NAMESPACE = "pulsar-readonly-demo"
IMAGES = ("engine", "operator", "client")
POOL, POOL_NAMESPACE = "demo", "default"
TOPIC = "persistent://public/default/orders"
PARTITIONS = 4
READY_TIMEOUT_S = 180
CLIENT_TIMEOUT_S = 300


class Demo:
    """One run of the demo.

    Args:
        messages: number of messages to publish.
        keep_operator: whether an operator is installed already.
    """

    def __init__(self, messages: int, *, keep_operator: bool = False) -> None:
        self._messages = messages
        self._keep_operator = keep_operator
        self._spec = WriterSpec()
        self.example = EXAMPLES[self._spec.metadata]
        cluster = choose()
        # Images wait for packages most of the time, and Kubernetes compiles meanwhile.
        with ThreadPoolExecutor(1) as beside:
            images = beside.submit(build, [TARGETS[name] for name in (*IMAGES, "pulsar")])
            cluster.up(1, DEFAULT_NAME)
            self._images = images.result()[: len(IMAGES)]
        self.kubeconfig = cluster.kubeconfig
        self._kubectl: Kubectl = cluster.kubectl()
        self._client_image = self._images[IMAGES.index("client")]

    def bring_up(self) -> None:
        """Start the source cluster, the operator, the pool and the binding.

        Raises:
            DevstackError: a part is not ready in time; the hint has the state of its pods.
        """
        for image in self._images:
            load(image)
        self.writer = writer_up(self._spec)
        if not self._keep_operator:
            self._install_operator()
        with step(f"a pool of 2 and a binding: kubectl apply -f {self.example.relative_to(PROJECT)}"):
            self._kubectl.run("apply", "-f", str(self.example))
            self._restart_stale_brokers()
            self._wait("wait", "--for=condition=Ready", f"robp/{POOL}", namespace=POOL_NAMESPACE)
            # Ready needs one broker; the clients of the demo meet all of them
            self._wait("wait", "--for=condition=LookupConfigured", "rotb/orders", namespace=POOL_NAMESPACE)

    def _install_operator(self) -> None:
        with step("the operator is installed: kubectl apply -k manifests/overlays/devstack"):
            self._kubectl.run("apply", "--server-side", "--force-conflicts", "-k", str(OPERATOR), timeout=120)
            # The running operator may have an older image of the same name.
            self._kubectl.run("-n", OPERATOR_NAMESPACE, "rollout", "restart", "deployment")
            self._wait("rollout", "status", "deployment", namespace=OPERATOR_NAMESPACE)

    def read_and_ack(self) -> list[SubscriptionResult]:
        """Publish and consume; return the results of each subscription.

        Raises:
            DevstackError: a client failed, or did not end in time.
        """
        self._kubectl.apply(
            yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLIENT_NAMESPACE}})
        )
        script = Path(client_program.__file__).read_text(encoding="utf-8")
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "clients", "namespace": CLIENT_NAMESPACE},
        }
        self._kubectl.apply(yaml.safe_dump({**config, "data": {"clients.py": script}}))
        count, pool_url = str(self._messages), f"pulsar://{POOL}.{POOL_NAMESPACE}.svc.cluster.local:6650"
        with step(f"topic {TOPIC} of {PARTITIONS} partitions, with two subscriptions"):
            self._start("delete", self.writer.admin_url, TOPIC)
            self._result("delete")
            self._start("prepare", self.writer.admin_url, TOPIC, str(PARTITIONS), "exclusive", "shared")
            self._result("prepare")
        before = self._dispatched()
        with step(f"{count} messages: published to the source cluster, read through the pool by 1 + 3 consumers"):
            self._start("consume-exclusive", pool_url, TOPIC, "exclusive", "Exclusive", "1", count)
            self._start("consume-shared", pool_url, TOPIC, "shared", "Shared", "3", count)
            self._start("produce", self.writer.service_url, TOPIC, count)
            produced = self._result("produce")
            say(f"the source cluster has confirmed {produced['produced']} messages")
            clients = [self._result("consume-exclusive"), self._result("consume-shared")]
        if produced["failed"]:
            raise DevstackError(f"{produced['failed']} messages could not be produced")
        stats, internal = self._settled_stats()
        after = self._dispatched()
        pool = {
            broker: {name: count - before.get(broker, {}).get(name, 0) for name, count in counts.items()}
            for broker, counts in after.items()
        }
        return [subscription_result(client, produced["produced"], stats, internal, pool) for client in clients]

    def objects(self) -> str:
        """Return kubectl's view of the pool and the binding."""
        return self._kubectl.run("get", "robp,rotb", "-A").strip()

    def _restart_stale_brokers(self) -> None:
        """Replace brokers of an earlier run, one by one: they may have an older image of the same name."""
        if self._kubectl.succeeds("-n", POOL_NAMESPACE, "get", f"statefulset/{POOL}"):
            self._kubectl.run("-n", POOL_NAMESPACE, "rollout", "restart", f"statefulset/{POOL}")
            self._wait("rollout", "status", f"statefulset/{POOL}", namespace=POOL_NAMESPACE)

    def _wait(self, *arguments: str, namespace: str) -> None:
        try:
            timeout = f"--timeout={READY_TIMEOUT_S}s"
            self._kubectl.run("-n", namespace, *arguments, timeout, timeout=READY_TIMEOUT_S + 10)
        except DevstackError as error:
            pods = self._kubectl.run("-n", namespace, "get", "pods,robp,rotb", "-o", "wide")
            raise DevstackError(f"not ready after {READY_TIMEOUT_S} s ({error})", pods.strip()) from error

    # Clients

    def _start(self, name: str, *arguments: str) -> None:
        container = {
            "name": "client",
            "image": self._client_image,
            "imagePullPolicy": "IfNotPresent",
            "args": ["/demo/clients.py", name.partition("-")[0], *arguments],
            "volumeMounts": [{"name": "clients", "mountPath": "/demo"}],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": CLIENT_NAMESPACE},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "volumes": [{"name": "clients", "configMap": {"name": "clients"}}],
            },
        }
        self._kubectl.run(
            "-n", CLIENT_NAMESPACE, "delete", "pod", name, "--ignore-not-found", "--timeout=60s", timeout=70
        )
        self._kubectl.apply(yaml.safe_dump(pod))

    def _result(self, name: str) -> Any:
        deadline = time.monotonic() + CLIENT_TIMEOUT_S
        phase = ""
        while phase not in {"Succeeded", "Failed"}:
            if time.monotonic() > deadline:
                raise DevstackError(f"the client {name} has not ended after {CLIENT_TIMEOUT_S} s", self._logs(name))
            time.sleep(0.3)
            phase = self._kubectl.run("-n", CLIENT_NAMESPACE, "get", "pod", name, "-o", "jsonpath={.status.phase}")
        logs = self._logs(name)
        if phase == "Failed":
            raise DevstackError(f"the client {name} failed", logs[-3000:])
        return json.loads(logs.strip().splitlines()[-1])

    def _logs(self, name: str) -> str:
        return self._kubectl.run("-n", CLIENT_NAMESPACE, "logs", name)

    # Statistics of the owner and of the brokers, through the API server's proxy

    def _admin(self, path: str) -> Any:
        service = f"/api/v1/namespaces/{self.writer.namespace}/services/pulsar-broker:8080/proxy"
        return json.loads(self._kubectl.run("get", "--raw", f"{service}/admin/v2/{TOPIC.replace('://', '/')}/{path}"))

    def _settled_stats(self) -> tuple[Any, Any]:
        """Return the owner's statistics after the last acks have arrived, or after 10 s."""
        deadline = time.monotonic() + 10
        while True:
            stats = self._admin("partitioned-stats?getPreciseBacklog=true")
            backlogs = [subscription["msgBacklog"] for subscription in stats["subscriptions"].values()]
            if not any(backlogs) or time.monotonic() > deadline:
                return stats, self._admin("partitioned-internalStats")
            time.sleep(0.2)

    def _dispatched(self) -> dict[str, dict[str, int]]:
        """Return the dispatched messages of each broker of the pool, by subscription."""
        selector = "pulsar-readonly.io/pool=" + POOL
        pods = self._kubectl.json("-n", POOL_NAMESPACE, "get", "pods", "-l", selector)["items"]
        found: dict[str, dict[str, int]] = {}
        for pod in pods:
            name = pod["metadata"]["name"]
            text = self._kubectl.run(
                "get", "--raw", f"/api/v1/namespaces/{POOL_NAMESPACE}/pods/{name}:8080/proxy/metrics"
            )
            found[name] = dispatched_by_subscription(text)
        return found
