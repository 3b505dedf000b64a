"""`make -C lab sleep`: a pool sleeps, and a stock client wakes it, again and again; the clients' languages take turns.

Before each cycle a producer at the owner leaves messages, while no broker of the pool runs. Then a client without a connection
subscribes at the pool's Service. The time runs from that call to its first message. It must get each message once.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devstack.clients.drivers import DRIVERS, command
from devstack.clients.versions import CLIENTS
from devstack.console import say
from devstack.kube.layout import default_layout
from devstack.pulsar.spec import DEFAULT_VERSION
from longtests.compat.handles import Client, new_client
from longtests.compat.process import Driver, DriverError, OperationError
from longtests.faults.table import write
from longtests.sleep.cycles import Cycle, failed, table
from tests.e2e.conftest import SMALL, SOURCE, SYSTEM, devstack
from tests.e2e.install import install
from tests.e2e.kubernetes import Kubernetes, eventually
from tests.support.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devstack.clients.versions import ClientVersion

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "testing" / "kubernetes.md"
MARKS: Final = ("<!-- sleep: written by make -C lab sleep SLEEP_OPTIONS=--write -->", "<!-- end of sleep -->")
LANGUAGES: Final = ("python", "java", "go")
MESSAGES: Final = 20
AFTER_S: Final = 10
ASLEEP_TIMEOUT_S: Final = 300.0
ASLEEP_S: Final = 5.0
"""How long the pool sleeps before it is woken, in which the waker's CPU is measured."""
TAKE_MS: Final = 60_000
IMAGES: Final = {"python": "client:dev", "java": f"pulsar:{DEFAULT_VERSION}", "go": f"pulsar:{DEFAULT_VERSION}"}
_FIGURES: Final = (
    "import re\n"
    "status = open('/proc/1/status').read()\n"
    "ticks = open('/proc/1/stat').read().rsplit(')', 1)[1].split()\n"
    "print(re.search(r'VmRSS:\\s+(\\d+)', status)[1], int(ticks[11]) + int(ticks[12]))\n"
)
_TICKS: Final = 100.0


class Stage:
    """The namespace of a run: a pool that sleeps, and a pod for each language.

    Args:
        kubernetes: the cluster, with operator and source Pulsar.
        kubectl: the words that start kubectl on it.
        folder: for logs of drivers.
    """

    def __init__(self, kubernetes: Kubernetes, kubectl: Sequence[str], folder: Path) -> None:
        self._kubernetes = kubernetes
        self._kubectl = kubectl
        self._folder = folder
        self.namespace = f"sleep-{uuid.uuid4().hex[:8]}"
        self.topic = f"persistent://public/default/{self.namespace}"
        self.url = f"pulsar://demo.{self.namespace}.svc.cluster.local:6650"

    def begin(self, languages: tuple[str, ...]) -> None:
        """Make all objects; return when the clients' pods run."""
        self._kubernetes.create_namespace(self.namespace)
        pool = {
            "apiVersion": "pulsar-readonly.io/v1beta1",
            "kind": "ReadOnlyBrokerPool",
            "metadata": {"name": "demo", "namespace": self.namespace},
            "spec": {
                "source": dict(SOURCE),
                "resources": SMALL,
                "replicas": 1,
                "scaleToZero": {"after": f"{AFTER_S}s"},
            },
        }
        binding = {
            "apiVersion": "pulsar-readonly.io/v1beta1",
            "kind": "ReadOnlyTopicBinding",
            "metadata": {"name": "topic", "namespace": self.namespace},
            "spec": {"poolRef": {"name": "demo"}, "topics": [self.topic]},
        }
        self._kubernetes.apply(pool, binding, *map(self._pod, languages))
        for language in languages:
            wait = ("wait", f"pod/{language}", "-n", self.namespace, "--for=condition=Ready", "--timeout=300s")
            self._kubernetes(*wait, timeout=320)

    def driver(self, client: ClientVersion) -> Driver:
        """Start a driver in the pod of its language, with all of its files."""
        words = command(client)
        places: dict[Path, str] = {}

        def moved(word: str) -> str:
            parts = word.split(":")
            for part in parts:
                path = Path(part.removesuffix("/*"))
                if path.is_absolute() and path.exists() and client.language != "python":
                    places.setdefault(path, f"/tmp/driver/{len(places)}")
            found = [
                f"{places[Path(one.removesuffix('/*'))]}{'/*' if one.endswith('/*') else ''}"
                if Path(one.removesuffix("/*")) in places
                else one
                for one in parts
            ]
            return ":".join(found)

        if client.language == "python":
            places[DRIVERS / "python"] = "/tmp/driver/0"
            words = ["python", "/tmp/driver/0/driver.py"]
        else:
            words = [moved(word) for word in words]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, place in places.items():
                archive.add(path, place.removeprefix("/tmp/"))
        kubectl = [*self._kubectl, "exec", "-i", client.language, "-n", self.namespace, "--"]
        subprocess.run([*kubectl, "tar", "x", "-C", "/tmp"], input=packed.getvalue(), check=True, timeout=120)
        return Driver([*kubectl, "env", "COMPAT_CLIENT_LOG=/tmp/client.log", *words], self._folder / f"{client}.log")

    def await_asleep(self) -> None:
        """Wait until no broker runs and no client waits."""
        asleep = {"Ready": ("True", "Asleep"), "Asleep": ("True", "Asleep")}
        self._kubernetes.expect("robp", "demo", self.namespace, asleep, timeout=ASLEEP_TIMEOUT_S)

        def alone() -> None:
            pods = self._kubernetes.list("pods", self.namespace, "pulsar-readonly.io/pool=demo")
            assert [one["metadata"]["name"] for one in pods] == ["demo-waker-0"]

        eventually(alone, ASLEEP_TIMEOUT_S)

    def waker(self) -> tuple[int, int]:
        """Return resident memory of the waker in KiB, and its CPU in ticks."""
        words = ("exec", "demo-waker-0", "-n", self.namespace, "--", "python3", "-c", _FIGURES)
        memory, ticks = self._kubernetes(*words).split()
        return int(memory), int(ticks)

    def seen(self) -> str:
        """Return when the broker of this waking was made, started and ready, for cycles that take long."""
        try:
            (pod,) = [
                one
                for one in self._kubernetes.list("pods", self.namespace, "pulsar-readonly.io/pool=demo")
                if one["metadata"]["name"] == "demo-0"
            ]
        except ValueError:
            return "no broker"
        times = {one["type"]: one["lastTransitionTime"] for one in pod["status"].get("conditions", ())}
        times |= {"made": pod["metadata"]["creationTimestamp"]}
        return ", ".join(f"{name} {times[name][11:19]}" for name in ("made", "PodScheduled", "Ready") if name in times)

    def end(self) -> None:
        """Delete all."""
        self._kubernetes.delete_namespace(self.namespace)

    def _pod(self, language: str) -> dict[str, Any]:
        container = {
            "name": "client",
            "image": f"localhost/pulsar-readonly/{IMAGES[language]}",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "100000"],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": language, "namespace": self.namespace},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }


def cycle(stage: Stage, number: int, client: ClientVersion, driver: Driver, owner: Client) -> Cycle:
    """Let a sleeping pool be woken once."""
    stage.await_asleep()
    producer = owner.producer(stage.topic)
    wanted = [f"{number}-{one}" for one in range(MESSAGES)]
    for one in wanted:
        producer.send(one)
    producer.close()
    _, before = stage.waker()
    began = time.monotonic()
    time.sleep(ASLEEP_S)
    memory, after = stage.waker()
    cpu = (after - before) / _TICKS / (time.monotonic() - began)
    at_pool = new_client(driver, stage.url)
    began, clock = time.monotonic(), time.strftime("%H:%M:%S", time.gmtime())
    subscribed = first = float("inf")
    got: list[str] = []
    error = ""
    try:
        consumer = at_pool.consumer(stage.topic, "sleeper")
        subscribed = time.monotonic() - began
        head = consumer.receive(TAKE_MS)
        first = time.monotonic() - began
        consumer.ack(head)
        got = [str(head.value), *map(str, consumer.values(MESSAGES - 1, ack=True, timeout_ms=TAKE_MS))]
    except (OperationError, DriverError) as failure:
        error = str(failure)
    made = Cycle(
        str(client), subscribed, first, len(set(wanted) - set(got)), len(got) - len(set(got)), memory, cpu, error
    )
    say(
        f"cycle {number} at {clock}: {client}: SUBSCRIBE {subscribed:.1f} s, first message {first:.1f} s; {stage.seen()} {error}"
    )
    at_pool.close()
    return made


def run(stage: Stage, count: int, languages: tuple[str, ...]) -> list[Cycle]:
    """Run cycles; return their results. An interrupt ends them early."""
    clients = [next(one for one in CLIENTS if one.language == language) for language in languages]
    found: list[Cycle] = []
    with ExitStack() as stack:
        stack.callback(stage.end)
        stage.begin(languages)
        drivers = []
        for client in clients:
            drivers.append(stage.driver(client))
            stack.callback(drivers[-1].close)
        owner = new_client(drivers[0], SOURCE["serviceUrl"])
        try:
            for number in range(count):
                turn = number % len(clients)
                found.append(cycle(stage, number, clients[turn], drivers[turn], owner))
        except KeyboardInterrupt:
            say("interrupted")
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 1 if a client waited too long or lost a message."""
    parser = argparse.ArgumentParser(prog="make -C lab sleep", description=__doc__)
    parser.add_argument("--cycles", type=int, default=20, help="cycles (default %(default)s)")
    parser.add_argument("--clients", nargs="+", choices=LANGUAGES, default=LANGUAGES, help="languages that take turns")
    parser.add_argument("--write", action="store_true", help="write the table to docs/testing/kubernetes.md")
    args = parser.parse_args(argv)
    devstack("kube", "up", timeout=900)
    for image in ("operator", "engine", "client"):
        devstack("image", "build", "--load", image, timeout=900)
    devstack("writer", "up", timeout=900)
    layout = default_layout()
    kubernetes = Kubernetes(str(layout.bin / "kubectl"), str(layout.kubeconfig))
    install(kubernetes, "kustomize", SYSTEM)
    deployment = ("deployment/pulsar-readonly-operator", "-n", SYSTEM)
    kubernetes("rollout", "restart", *deployment)
    kubernetes("rollout", "status", *deployment, "--timeout=180s", timeout=200)
    folder = Path("build") / "sleep"
    folder.mkdir(parents=True, exist_ok=True)
    kubectl = [str(layout.bin / "kubectl"), "--kubeconfig", str(layout.kubeconfig)]
    cycles = run(Stage(kubernetes, kubectl, folder), args.cycles, tuple(args.clients))
    rows = table(cycles)
    sys.stdout.write("\n".join(rows) + "\n")
    if args.write:
        write(DOCUMENT, [stamp(), *rows], MARKS)
    return int(not cycles or failed(cycles))


if __name__ == "__main__":
    sys.exit(main())
