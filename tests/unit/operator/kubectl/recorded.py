"""Answers of an API server, in the form in which it gives them, and an API that gives nothing else."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from readonly_engine.status.document import encode
from readonly_operator.kubectl.answers import checked
from readonly_operator.kubectl.connection import NO_HEADERS, Connection

from tests.support.states import SMALL

NAMESPACE = "streaming"
CUSTOM = f"/apis/pulsar-readonly.io/v1beta1/namespaces/{NAMESPACE}"
POOLS, BINDINGS = f"{CUSTOM}/readonlybrokerpools", f"{CUSTOM}/readonlytopicbindings"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def condition(kind: str, status: str, reason: str, message: str = "", generation: int = 3) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-01T10:00:00Z",
        "observedGeneration": generation,
    }


def pool(name: str = "orders", **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlyBrokerPool",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": "u-1", "generation": 3},
        "spec": {
            "replicas": 2,
            "source": {
                "serviceUrl": "pulsar://owner:6650",
                "adminUrl": "http://owner:8080",
                "metadataStoreUrl": "zk:zookeeper:2181",
            },
        },
        "status": {
            "observedGeneration": 3,
            "readyReplicas": 2,
            "bindings": 1,
            "conditions": [
                condition("Ready", "True", "BrokersReady", "2 of 2 brokers are ready"),
                condition("Progressing", "False", "Settled", "2 of 2 brokers are ready"),
                condition("SourceReachable", "True", "Answers"),
            ],
        },
        **changes,
    }


def binding(name: str = "clicks", pool_ref: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlyTopicBinding",
        "metadata": {"name": name, "namespace": NAMESPACE, "generation": 3},
        "spec": {
            "poolRef": pool_ref or {"name": "orders"},
            "topics": ["persistent://public/default/clicks", "persistent://public/default/orders-.*"],
            "namespaces": ["public/events"],
        },
        "status": {
            "brokers": 2,
            "servingBrokers": 2,
            "matchedTopics": 7,
            "conditions": [condition("Ready", "True", "Held", "2 of 2 brokers serve it")],
        },
    }


def pod(name: str, *, ready: bool = True, pool_name: str = "orders", workers: int = 1) -> dict[str, Any]:
    ports = [{"name": "pulsar", "containerPort": 6650}, {"name": "http", "containerPort": 8080}]
    if workers > 1:
        ports += [{"name": f"http-{one}", "containerPort": 8180 + 100 * one} for one in range(workers)]
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    running = {"running": {"startedAt": "2026-11-01T09:00:00Z"}}
    ended = {"terminated": {"reason": "Error", "message": "x\nmetadata-store-url: zk:zookeeper:2181 does not answer\n"}}
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "pulsar-readonly-broker", "pulsar-readonly.io/pool": pool_name},
            "annotations": {"pulsar-readonly.io/locality": "/eu/a"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": pool_name, "uid": "s", "controller": True}
            ],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {
                    "name": "broker",
                    "args": ["serve", "--pool", f"{NAMESPACE}.{pool_name}", "--pool-uid", "u-1"],
                    "ports": ports,
                }
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-11-01T10:00:00Z"}],
            "containerStatuses": [
                {
                    "name": "broker",
                    "restartCount": 0 if ready else 6,
                    "state": running if ready else waiting,
                    "lastState": {} if ready else ended,
                }
            ],
        },
    }


def refused(verb: str, resource: str, code: int = 403, reason: str = "Forbidden") -> dict[str, Any]:
    message = f'{resource} is forbidden: User "jane" cannot {verb} resource "{resource}" in the namespace "{NAMESPACE}"'
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def items(*found: dict[str, Any], token: str = "") -> dict[str, Any]:
    return {"kind": "List", "apiVersion": "v1", "metadata": {"continue": token}, "items": list(found)}


def status_path(name: str, port: int = 8080) -> str:
    return f"{PODS}/{name}:{port}/proxy/status"


def well() -> dict[str, tuple[int, Any]]:
    """A pool with two brokers and a binding, all well."""
    return {
        POOLS: (200, items(pool())),
        f"{POOLS}/orders": (200, pool()),
        BINDINGS: (200, items(binding())),
        PODS: (200, items(pod("orders-1"), pod("orders-0"))),
        status_path("orders-0"): (200, encode(SMALL)),
        status_path("orders-1"): (200, encode(SMALL)),
    }


class Recorded(Connection):
    """Gives recorded answers; lists and refusals are read as from a real API server.

    Attributes:
        asked: paths of all requests, without queries.
        queries: query of each request.
        headers: further headers of each request.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__([])
        self.answers = answers
        self.asked: list[str] = []
        self.queries: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []

    def get(self, path: str, timeout_s: float = 0.0, headers: Mapping[str, str] = NO_HEADERS) -> tuple[int, bytes]:
        parts = urlsplit(path)
        self.asked.append(parts.path)
        self.queries.append(parse_qs(parts.query))
        self.headers.append(dict(headers))
        answer = self.answers.get(parts.path, (404, {**refused("get", parts.path, 404), "message": "not found"}))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, list):
            answer = answer.pop(0)
        status, document = answer
        return status, document if isinstance(document, bytes) else json.dumps(document).encode()

    def object(self, path: str) -> dict[str, Any]:
        return checked(*self.get(path))
