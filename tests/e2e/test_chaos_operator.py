"""The operator's process is killed in the middle of its work, again and again: in the end everything is as if it had not been."""

import json
import os
import pathlib
import random
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e.conftest import SYSTEM
from tests.e2e.conftest import _binding as binding_body
from tests.e2e.conftest import _pool as pool_body
from tests.e2e.kubernetes import Kubernetes, eventually

pytestmark = pytest.mark.slow

CYCLES = 4
LEASE_SECONDS = 4
"""Shorter than usual, so that the next process need not wait long for the Lease of a dead one."""
DEPLOYMENT = ("deployment/pulsar-readonly-operator", "-n", SYSTEM)
OPERATORS = "app.kubernetes.io/name=pulsar-readonly-operator"
HASHES = {"pulsar-readonly.io/applied-hash", "pulsar-readonly.io/template-hash"}
"""Annotations with hashes that the owner's uid is a part of."""
POOLS = "pulsar-readonly.io/pool"
CHILDREN = "serviceaccount,configmap,service,statefulset,poddisruptionbudget,networkpolicy"
SETTLE_SECONDS = 120.0
STILL_SECONDS = 15.0
"""Longer than brokers' figures are waited for, and than a status write that has only other numbers is put off."""


@pytest.fixture(scope="module")
def quick_lease(operator):
    """An operator whose Lease runs out soon."""
    variable = "PULSAR_READONLY_LEASE_SECONDS"
    for setting in (f"{variable}={LEASE_SECONDS}", f"{variable}-"):
        operator("set", "env", *DEPLOYMENT, setting)
        operator("rollout", "status", *DEPLOYMENT, "--timeout=180s", timeout=200)
        if not setting.endswith("-"):
            yield operator


def main_process(container: str) -> int:
    """The process of this machine that is the first one of a container, by the container's id."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container in path.read_text() and re.search(
                r"^NSpid:.*\t1$", (path.parent / "status").read_text(), re.MULTILINE
            ):
                return int(path.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    pytest.skip("the nodes' processes are not processes of this machine")


def running(kubernetes: Kubernetes) -> tuple[str, int]:
    """The operator's pod, and its process."""
    pods = [pod for pod in kubernetes.list("pods", SYSTEM, OPERATORS) if "deletionTimestamp" not in pod["metadata"]]
    assert len(pods) == 1, pods
    pod = pods[0]
    (status,) = pod["status"].get("containerStatuses") or [{}]
    assert "running" in status.get("state", {}), status
    return pod["metadata"]["name"], main_process(status["containerID"].rpartition("/")[2])


def without_uid(found: Any, metadata: dict[str, Any]) -> Any:
    """A part of a pool's child without the uid of the pool, which is another one in each cycle."""
    text = json.dumps(found)
    for owner in metadata["ownerReferences"]:
        text = text.replace(owner["uid"], "UID")
    return json.loads(text)


def state(kubernetes: Kubernetes, namespace: str) -> dict[str, Any]:
    """What there is of the pools and bindings of a namespace; AssertionError while it is not settled."""
    found: dict[str, Any] = {}
    for body in kubernetes.list("robp,rotb", namespace):
        name, status = f"{body['kind']}/{body['metadata']['name']}", body.get("status") or {}
        assert status.get("observedGeneration") == body["metadata"]["generation"], f"{name}: of an older spec"
        conditions = {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}
        assert conditions["Progressing"][0] == "False", (name, conditions)
        assert all(one[0] != "Unknown" for one in conditions.values()), (name, conditions)
        figures = {
            one: value for one, value in status.items() if one not in {"conditions", "observedGeneration", "lag"}
        }
        if body["kind"] == "ReadOnlyTopicBinding":
            figures.pop("lookupRevision", None)  # it stays where only other bindings have changed since
        found[name] = (conditions, figures, body["metadata"].get("finalizers"))
    for body in kubernetes.list(CHILDREN, namespace, POOLS):
        metadata = body["metadata"]
        spec, data = without_uid(body.get("spec") or {}, metadata), without_uid(body.get("data"), metadata)
        annotations = without_uid(
            {one: value for one, value in metadata["annotations"].items() if one not in HASHES}, metadata
        )
        for field in ("clusterIP", "clusterIPs"):
            spec.pop(field, None)
        status = body.get("status") or {}
        rolls = {one: value for one, value in status.items() if one.endswith("eplicas")}
        rolls["rolled"] = status.get("currentRevision") == status.get("updateRevision")
        owners = [(one["kind"], one["name"]) for one in metadata["ownerReferences"]]
        found[f"{body['kind']}/{metadata['name']}"] = (
            *(metadata["labels"], annotations, owners, spec, data),
            rolls if body["kind"] == "StatefulSet" else None,
        )
    for pod in kubernetes.list("pods", namespace, POOLS):
        name = pod["metadata"]["name"]
        assert "deletionTimestamp" not in pod["metadata"], f"{name} is ending"
        held = kubernetes.broker(name, namespace, "/bindings")
        bindings = sorted((one["name"], tuple(one["topics"])) for one in held["bindings"])
        starts = [one["restartCount"] for one in pod["status"]["containerStatuses"]]
        found[f"Pod/{name}"] = (held["revision"], held["error"], bindings, starts)
    rolls = kubernetes.list("controllerrevisions", namespace, POOLS)
    found["pod templates so far"] = len({one["metadata"]["name"] for one in rolls})
    return found


class Play:
    """What users do to a pool and its bindings, step by step, and what has come of each step when nobody disturbed it.

    Args:
        kubernetes: with a running operator.
        namespace: of its own.
    """

    def __init__(self, kubernetes: Kubernetes, namespace: str) -> None:
        self.kubernetes = kubernetes
        self.namespace = namespace
        self.expected: dict[str, dict[str, Any]] = {}
        self.spans: dict[str, float] = {}
        self.steps: dict[str, Callable[[], None]] = {
            "create": self._create,
            "scale": self._scale,
            "configure": self._configure,
            "rebind": self._rebind,
            "delete": self._delete,
        }

    def learn(self) -> None:
        """Do each step undisturbed."""
        before: dict[str, Any] = {}

        def changed() -> None:
            assert self.state() != before, "nothing has changed yet"

        for name, step in self.steps.items():
            began = time.monotonic()
            step()
            eventually(changed, SETTLE_SECONDS)
            self.spans[name] = time.monotonic() - began
            before = self.expected[name] = self._lasting()
        self.clear()

    def state(self) -> dict[str, Any]:
        return state(self.kubernetes, self.namespace)

    def clear(self) -> None:
        self.kubernetes("delete", "rotb", "--all", "-n", self.namespace)

    def _lasting(self) -> dict[str, Any]:
        """The state that is still the same after a while: figures that only brokers know come later than the rest."""
        last: list[Any] = [None]

        def same() -> dict[str, Any]:
            found = self.state()
            before, last[0] = last[0], found
            assert found == before
            return found

        return eventually(same, SETTLE_SECONDS, every=STILL_SECONDS)

    def _pool(self, **spec: Any) -> dict[str, Any]:
        return pool_body(self.namespace, **spec)

    def _bindings(self, ordinals: range, end: str) -> list[dict[str, Any]]:
        topic = f"persistent://public/default/{self.namespace}"
        return [binding_body(self.namespace, f"b{one}", f"{topic}-{one}{end}") for one in ordinals]

    def _create(self) -> None:
        self.kubernetes.apply(*self._bindings(range(4), ""), self._pool(replicas=2, networkPolicy={}))

    def _scale(self) -> None:
        self.kubernetes("scale", "robp/demo", "-n", self.namespace, "--replicas=1")

    def _configure(self) -> None:
        self.kubernetes.apply(self._pool(replicas=1, cache={"size": "128Mi"}, disruptionBudget={"enabled": False}))

    def _rebind(self) -> None:
        self.kubernetes("delete", "rotb/b0", "rotb/b1", "-n", self.namespace, "--wait=false")
        self.kubernetes.apply(*self._bindings(range(2, 6), ".*"))

    def _delete(self) -> None:
        self.kubernetes("delete", "robp/demo", "-n", self.namespace, "--wait=false")


@pytest.fixture(scope="module")
def seed(request) -> int:
    """Says when the operator is killed."""
    return request.config.getoption("--chaos-seed") or random.randrange(1_000_000)


@pytest.fixture(scope="module")
def play(quick_lease, writer) -> Iterator[Play]:
    """The steps, each done once undisturbed."""
    made = Play(quick_lease, f"e2e-{uuid.uuid4().hex[:8]}")
    quick_lease.create_namespace(made.namespace)
    made.learn()
    yield made
    quick_lease.delete_namespace(made.namespace)


@pytest.mark.parametrize("cycle", range(CYCLES))
def test_it_does_not_matter_when_the_operator_is_killed(play, seed, cycle, measured):
    dice = random.Random(f"{seed}.{cycle}")
    took = []
    for name, step in play.steps.items():
        # most of what is written is written soon; each cycle has its part of the span
        delay = play.spans[name] * ((cycle + dice.random()) / CYCLES) ** 2
        pod, pid = eventually(partial(running, play.kubernetes), 60)
        killing = threading.Timer(delay, os.kill, (pid, signal.SIGKILL))
        killing.start()
        step()
        killing.join()
        killed = time.monotonic()
        # Kubernetes waits longer each time before it starts a container again: a new pod has not that past
        play.kubernetes("delete", "pod", pod, "-n", SYSTEM, "--force", "--grace-period=0", "--wait=false")

        def same(name=name, delay=delay):
            found, wanted = play.state(), play.expected[name]
            different = {
                one: (found.get(one), wanted.get(one))
                for one in found.keys() | wanted.keys()
                if found.get(one) != wanted.get(one)
            }
            assert not different, f"--chaos-seed={seed}: killed {delay:.2f} s after {name}: {different}"

        eventually(same, SETTLE_SECONDS, every=0.3)
        took.append(f"{name} {delay:.1f} + {time.monotonic() - killed:.1f}")
    play.clear()
    measured(
        f"operator killed (kill -9, --chaos-seed={seed}), seconds after + until all was as it should be: {'; '.join(took)}"
    )
