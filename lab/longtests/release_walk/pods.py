"""Pods of the walk: all run the release's own engine image, which has the stock Python client of Apache Pulsar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devstack.common.run import wait_until
from devstack.errors import DevstackError
from longtests.release_walk import judging

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.kube.kubectl import Kubectl

NAMESPACE: Final = "release-walk"
SOURCE: Final = "pulsar"
"""Namespace of the source cluster, as in examples/quickstart.yaml."""

OWNER_URL: Final = f"pulsar://pulsar-broker.{SOURCE}.svc.cluster.local:6650"
ADMIN_URL: Final = f"http://pulsar-broker.{SOURCE}.svc.cluster.local:8080"
POOL_URL: Final = "pulsar://demo.default.svc.cluster.local:6650"
TOPIC: Final = "persistent://public/default/orders"
PLAN: Final = {
    "exclusive": ("Exclusive", 1),
    "failover": ("Failover", 2),
    "shared": ("Shared", 2),
    "keys": ("KeyShared", 2),
}
"""Type and number of consumers of each subscription."""

READY_S: Final = 120
_PROGRAM: Final = Path(__file__).parent / "clients_program.py"
_GET: Final = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
_PUBLISH: Final = """import pulsar, sys
client = pulsar.Client(sys.argv[1])
producer = client.create_producer(sys.argv[2])
for number in range(int(sys.argv[3])):
    producer.send(b"before-%d" % number)
client.close()
"""
_END: Final = "import os; os.kill(1, 15)"


class Pods:
    """Pods of one namespace.

    Args:
        kubectl: of the cluster.
        image: engine image of the release, in the registry.
    """

    def __init__(self, kubectl: Kubectl, image: str) -> None:
        self._kubectl = kubectl
        self._image = image
        self._made = False

    def up(self) -> None:
        """Make the namespace, and a pod from which the walk asks and publishes."""
        program = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program", "namespace": NAMESPACE}}
        self._kubectl.run("create", "namespace", NAMESPACE)
        self._made = True
        self._kubectl.apply(json.dumps({**program, "data": {"clients.py": _PROGRAM.read_text(encoding="utf-8")}}))
        self._start("tool", "python3", "-c", "import signal; signal.sigwait([signal.SIGTERM])")
        self._kubectl.run(
            *("wait", "pod/tool", "-n", NAMESPACE, "--for=condition=Ready", f"--timeout={READY_S}s"),
            timeout=READY_S + 10,
        )

    def down(self) -> None:
        """Delete all of it."""
        if self._made:
            self._kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout=150)
            self._made = False

    def snippet(self, name: str, text: str) -> None:
        """Start a pod that runs Python code of a page."""
        self._start(name, "python3", "-u", "-c", text)

    def publisher(self, name: str, url: str, rate: int) -> None:
        """Start a publisher, and wait until it is connected."""
        self._start(name, "python3", "-u", "/program/clients.py", "publish", url, TOPIC, str(rate))
        self.wait(f"{name} is connected", lambda: judging.is_ready(self.log(name)), name)

    def consumers(self, name: str, url: str) -> None:
        """Start the consumers of PLAN, and wait until all have subscribed."""
        self._start(name, "python3", "-u", "/program/clients.py", "consume", url, TOPIC, json.dumps(PLAN))
        self.wait(f"{name} has subscribed", lambda: judging.is_ready(self.log(name)), name)

    def log(self, name: str) -> str:
        """Return the log of a pod; empty before its container runs."""
        try:
            return self._kubectl.run("logs", name, "-n", NAMESPACE)
        except DevstackError:
            return ""

    def end(self, name: str) -> str:
        """End the program of a pod by SIGTERM, wait until it has ended well, and return its whole log."""
        self._kubectl.run("exec", name, "-n", NAMESPACE, "--", "python3", "-c", _END)
        self.wait(f"{name} ends", lambda: self._phase(name) == "Succeeded", name)
        return self._kubectl.run("logs", name, "-n", NAMESPACE)

    def wait(self, what: str, check: Callable[[], bool], pod: str, seconds: float = READY_S) -> None:
        """Wait until a check holds.

        Raises:
            DevstackError: a pod failed, or it took too long; the hint has the end of the pod's log.
        """

        def checked() -> bool:
            if self._phase(pod) == "Failed":
                raise DevstackError(f"{what}: the pod {pod} failed", self.log(pod)[-1500:])
            return check()

        try:
            wait_until(checked, seconds, what, pause=0.3)
        except DevstackError as error:
            raise DevstackError(str(error), error.hint or self.log(pod)[-1500:]) from error

    def publish(self, count: int) -> None:
        """Publish some messages to the topic at the owner."""
        command = ("exec", "tool", "-n", NAMESPACE, "--", "python3", "-c", _PUBLISH, OWNER_URL, TOPIC, str(count))
        self._kubectl.run(*command, timeout=READY_S)

    def stats(self) -> dict[str, Any]:
        """Return the topic's statistics at its owner."""
        path = f"{ADMIN_URL}/admin/v2/{TOPIC.replace('://', '/')}/stats?getPreciseBacklog=true"
        found: dict[str, Any] = json.loads(
            self._kubectl.run("exec", "tool", "-n", NAMESPACE, "--", "python3", "-c", _GET, path)
        )
        return found

    def backlogs(self) -> dict[str, int]:
        """Return the messages without an ack of each subscription of PLAN, at the owner."""
        subscriptions = self.stats()["subscriptions"]
        return {name: subscriptions[name]["msgBacklog"] for name in PLAN}

    def _start(self, name: str, *command: str) -> None:
        container = {
            "name": "client",
            "image": self._image,
            "command": list(command),
            "volumeMounts": [{"name": "program", "mountPath": "/program"}],
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "program", "configMap": {"name": "program"}}],
        }
        metadata = {"name": name, "namespace": NAMESPACE}
        self._kubectl.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))

    def _phase(self, name: str) -> str:
        return str(self._kubectl.json("get", "pod", name, "-n", NAMESPACE)["status"].get("phase", ""))
