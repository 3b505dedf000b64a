"""A Kubernetes cluster as the end-to-end tests use it: changed by kubectl, and read from the API server."""

import json
import subprocess
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from devstack.kube.kubectl import environment
from tests.e2e.api import Api

RIGHTS = "rbac.authorization.k8s.io"
OPERATOR = {"kind": "ServiceAccount", "name": "pulsar-readonly-operator", "namespace": "pulsar-readonly-system"}
CLIENT = {"image": "localhost/pulsar-readonly/client:dev", "imagePullPolicy": "IfNotPresent"}


def client_pod(namespace: str, name: str, *args: str, volumes: Any = (), mounts: Any = ()) -> dict[str, Any]:
    """A pod that runs Python with the stock client."""
    container = {"name": name, **CLIENT, "args": list(args), "volumeMounts": list(mounts)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": list(volumes)},
    }


def eventually(assertion: Callable[[], Any], timeout: float = 30.0, every: float = 0.1) -> Any:
    """What the assertion returns, once it does not fail; its last failure when that takes too long."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while True:
        try:
            return assertion()
        except (AssertionError, LookupError):
            if time.monotonic() > deadline:
                raise
        pause.wait(every)


def equal(found: object, wanted: object) -> None:
    """An assertion for lambdas, which shows both values."""
    assert found == wanted, (found, wanted)


class Kubernetes:
    """The cluster."""

    def __init__(self, kubectl: str, kubeconfig: str) -> None:
        self._kubectl = kubectl
        self.api = Api(kubeconfig)
        self.kubeconfig = kubeconfig
        self._environment = environment(kubeconfig)

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._kubectl, *arguments],
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
            timeout=timeout,
            env=self._environment,
        )

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        done = self.run(*arguments, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        """One object; LookupError when there is none."""
        return self.api.get(kind, name, namespace)

    def list(self, kinds: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of one or more kinds."""
        return self.api.list(kinds, namespace, selector)

    def create_namespace(self, name: str) -> None:
        """A new namespace."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.api.raw("/api/v1/namespaces", method="POST", body=body)

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace, without waiting for its end."""
        self.api.raw(f"/api/v1/namespaces/{name}", method="DELETE")

    def apply(self, *manifests: dict[str, Any]) -> None:
        """kubectl apply."""
        self("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}))

    def grant(self, namespace: str, name: str, *rules: dict[str, Any], subject: Any = OPERATOR) -> None:
        """Make a Role, and bind it to a subject."""
        metadata, version = {"name": name, "namespace": namespace}, f"{RIGHTS}/v1"
        bound = {"roleRef": {"apiGroup": RIGHTS, "kind": "Role", "name": name}, "subjects": [subject]}
        self.apply(
            {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": list(rules)},
            {"apiVersion": version, "kind": "RoleBinding", "metadata": metadata, **bound},
        )

    def condition(self, kind: str, name: str, namespace: str, condition: str) -> dict[str, Any]:
        """A condition that is about the current spec; LookupError when there is none of this type."""
        body = self.get(kind, name, namespace)
        status = body.get("status", {})
        assert status.get("observedGeneration") == body["metadata"]["generation"], "status is of an older spec"
        found = {one["type"]: one for one in status["conditions"]}
        if condition not in found:
            raise LookupError(f"no condition {condition} of {kind} {name}")
        return found[condition]

    @cached_property
    def minor(self) -> int:
        """The second part of the API server's version."""
        return int(self.api.raw("/version")["minor"].rstrip("+"))

    def expect(
        self, kind: str, name: str, namespace: str, expected: dict[str, tuple[str, str]], timeout: float = 30.0
    ) -> dict[str, str]:
        """Wait for conditions: {type: (status, reason)}.

        Returns:
            Their messages.
        """

        def reached() -> dict[str, str]:
            found = {one: self.condition(kind, name, namespace, one) for one in expected}
            assert {one: (value["status"], value["reason"]) for one, value in found.items()} == expected, found
            return {one: value["message"] for one, value in found.items()}

        return eventually(reached, timeout)

    def broker(self, pod: str, namespace: str, path: str) -> Any:
        """What a broker answers, through the API server; LookupError when it does not answer."""
        try:
            return self.api.raw(f"/api/v1/namespaces/{namespace}/pods/{pod}:8080/proxy{path}")
        except AssertionError as error:
            raise LookupError(str(error)) from error
