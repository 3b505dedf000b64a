"""A source cluster's admin API in memory, behind a real HTTP server: namespaces, topics, subscriptions, topics with cursors."""

import contextlib
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from readonly_operator.api.pool.source import Source
from readonly_operator.cluster.fetch import ANONYMOUS
from readonly_operator.cluster.local_cursors.admin import CursorAdmin
from readonly_operator.cluster.local_cursors.names import POOL_PROPERTY, cursor_topic

from tests.support.played_http import HttpRequest, played_http

IDENTITY = "team.demo@uid-of-demo"
GUARD = f"pulsar-readonly-guard-{IDENTITY}-"


@dataclass
class AdminWorld:
    """The cluster's state, and what was asked.

    Attributes:
        policies: by namespace; only these namespaces exist.
        topics: subscriptions by full name of a topic or partition.
        cursors: partitions and the property's pool, by the full name of a topic with cursors.
        refused: status of the answer by a part of the path.
        asked: method and path of each request.
        port: its port.
    """

    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    topics: dict[str, list[str]] = field(default_factory=dict)
    cursors: dict[str, tuple[int, str]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self):
        self._server = contextlib.ExitStack()
        self.port = self._server.enter_context(played_http(self._answer))

    def close(self):
        self._server.close()

    def _answer(self, request: HttpRequest):
        path = request.path.removeprefix("/admin/v2/")
        asked = f"{request.method} {path}"
        self.asked.append(asked)
        status = next((code for part, code in self.refused.items() if part in asked), 0)
        found = None if status else self.answer(request.method, [unquote(part) for part in path.split("/")])
        return status or (404 if found is None else 200), found

    @property
    def source(self):
        return Source(
            service_url="pulsar://127.0.0.1:1",
            admin_url=f"http://127.0.0.1:{self.port}",
            metadata_store_url="zk:127.0.0.1:1",
        )

    def admin(self, source=None):
        return CursorAdmin(source or self.source, ANONYMOUS)

    def add(self, namespace, *topics, guards=(), pool=IDENTITY, partitions=16):
        """A namespace whose topics have these subscriptions, and a topic with cursors of a pool; empty for none."""
        self.policies.setdefault(namespace, {})
        for topic in topics:
            self.topics[f"persistent://{namespace}/{topic}"] = list(guards)
        if pool:
            self.cursors[cursor_topic(namespace, IDENTITY)] = (partitions, pool)

    def answer(self, method, parts):
        match method, parts:
            case "GET", ["tenants"]:
                return sorted({name.split("/")[0] for name in self.policies})
            case "GET", ["namespaces", tenant]:
                return [name for name in self.policies if name.startswith(f"{tenant}/")]
            case "GET", ["namespaces", tenant, namespace]:
                return self.policies.get(f"{tenant}/{namespace}")
            case "GET", ["persistent", tenant, namespace]:
                begin = f"persistent://{tenant}/{namespace}/"
                partitions = [
                    f"{name}-partition-{i}" for name, (count, _) in self.cursors.items() for i in range(count)
                ]
                return [name for name in (*self.topics, *partitions) if name.startswith(begin)]
            case "GET", ["persistent", tenant, namespace, topic, "subscriptions"]:
                return self.topics.get(f"persistent://{tenant}/{namespace}/{topic}")
            case "DELETE", ["persistent", tenant, namespace, topic, "subscription", name]:
                found = self.topics.get(f"persistent://{tenant}/{namespace}/{topic}", [])
                return found.remove(name) or {} if name in found else None
            case "GET", ["persistent", tenant, namespace, topic, "partitions"]:
                found = self.cursors.get(f"persistent://{tenant}/{namespace}/{topic}")
                return found and {"partitions": found[0], "properties": {POOL_PROPERTY: found[1]} if found[1] else {}}
            case "DELETE", ["persistent", tenant, namespace, topic, "partitions"]:
                return {} if self.cursors.pop(f"persistent://{tenant}/{namespace}/{topic}", None) else None
        raise AssertionError(parts)
