"""A small server of custom.metrics.k8s.io for tests: connections of brokers, from their own /metrics. Runs in a pod.

    metrics_adapter_program.py CERTIFICATE KEY

It asks brokers NAME-0 to NAME-9 of the pool in the request's label selector (pulsar-readonly.io/pool=NAME), by their names in the
DNS, and answers with one value for each broker that runs.
"""

import json
import re
import socket
import ssl
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

GROUP = "custom.metrics.k8s.io"
VERSION = f"{GROUP}/v1beta2"
METRIC = "pulsar_readonly_connections"
PORT = 8443
MAX_BROKERS = 10
QUERY_S = 2.0
_PATH = re.compile(rf"/apis/{re.escape(VERSION)}/namespaces/(?P<namespace>[^/]+)/pods/\*/{METRIC}")
_SAMPLE = re.compile(rf"{METRIC}(?:\{{[^}}]*\}})? (?P<value>\S+)")


def connections(text: str) -> int:
    """The sum of a broker's samples: with workers there is one of each."""
    return round(sum(float(match["value"]) for match in map(_SAMPLE.fullmatch, text.splitlines()) if match))


def values(namespace: str, pool: str) -> list[dict[str, Any]]:
    """The metric of each broker that answers."""
    found = []
    for ordinal in range(MAX_BROKERS):
        pod = f"{pool}-{ordinal}"
        url = f"http://{pod}.{pool}-headless.{namespace}.svc.cluster.local:8080/metrics"
        try:
            with urllib.request.urlopen(url, timeout=QUERY_S) as answer:
                value = connections(answer.read().decode())
        except (urllib.error.URLError, OSError):
            continue
        found.append(
            {
                "describedObject": {"kind": "Pod", "namespace": namespace, "name": pod, "apiVersion": "/v1"},
                "metric": {"name": METRIC},
                "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "value": str(value),
            }
        )
    return found


def answer_to(path: str) -> dict[str, Any] | None:
    """What a request is answered with; None for not found."""
    url = urlsplit(path)
    if url.path.rstrip("/") == f"/apis/{VERSION}":
        resource = {"name": f"pods/{METRIC}", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": VERSION,
            "resources": [{**resource, "singularName": ""}],
        }
    match = _PATH.fullmatch(unquote(url.path))  # clients in Go send the * of all pods as %2A
    if match is None:
        return None
    (selector,) = parse_qs(url.query)["labelSelector"]
    items = values(match["namespace"], selector.partition("=")[2])
    return {"kind": "MetricValueList", "apiVersion": VERSION, "metadata": {}, "items": items}


class Handler(BaseHTTPRequestHandler):
    """Answers the API server."""

    def do_GET(self) -> None:
        """Answer one request."""
        found = answer_to(self.path)
        body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Serve on all addresses, IPv4 and IPv6."""

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        """Bind, for both families."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


if __name__ == "__main__":
    server = Server(("", PORT), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
