"""Stand-ins for kubelets and brokers: each pod becomes ready, and answers the operator as a broker with all its bindings does.

Pods have addresses of their own in 127.0.0.0/8, and one server answers at all of them.
"""

from __future__ import annotations

import datetime as dt
import json
import socket
import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.names import BINDINGS_KEY, PORT_HTTP, VOLUME_PREFIX

from longtests.scale.control_plane import ScaleError
from longtests.scale.serving import QuietHandler, serving
from longtests.scale.watching import watched
from tests.support.yaml_documents import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtests.scale.control_plane import Client

START_SECONDS = 1.0
"""Time from the creation of a pod until it is ready."""

PODS, CONFIG_MAPS = "/api/v1/pods", "/api/v1/configmaps"
FIRST_ADDRESS = 0x7F010001
"""127.1.0.1."""


class Nodes:
    """Start pods, and answer for their brokers.

    Args:
        client: of an administrator.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._next = FIRST_ADDRESS
        self._known: set[str] = set()
        self._maps: dict[str, tuple[str, str]] = {}
        self._bindings: dict[tuple[str, str], str] = {}
        self._answers: dict[str, bytes] = {}

    def answer(self, address: str) -> bytes | None:
        """Return what the broker at an address holds, as its `/bindings`; None for no broker, or one without bindings yet."""
        with self._lock:
            text = self._bindings.get(self._maps.get(address, ("", "")))
            if text is None:
                return None
            found = self._answers.get(text)
        if found is None:
            held = load_yaml(text)
            for one in held["bindings"]:
                one["matched"] = {"topics": 1, "partitions": 1}
            found = json.dumps({**held, "error": ""}).encode()
            with self._lock:
                self._answers[text] = found
        return found

    def pod(self, kind: str, pod: dict[str, Any]) -> None:
        """Take an event of a pod."""
        uid, metadata = pod["metadata"]["uid"], pod["metadata"]
        address = (pod.get("status") or {}).get("podIP", "")
        with self._lock:
            if kind == "DELETED":
                self._known.discard(uid)
                self._maps.pop(address, None)
                return
            if uid in self._known:
                return
            self._known.add(uid)
            address = socket.inet_ntoa(self._next.to_bytes(4, "big"))
            self._next += 1
            (mounted,) = [
                one["configMap"]["name"] for one in pod["spec"]["volumes"] if one["name"] == f"{VOLUME_PREFIX}bindings"
            ]
            self._maps[address] = (metadata["namespace"], mounted)
        timer = threading.Timer(START_SECONDS, self._start, (pod, address))
        timer.daemon = True
        timer.start()

    def config_map(self, kind: str, found: dict[str, Any]) -> None:
        """Take an event of a ConfigMap."""
        key = (found["metadata"]["namespace"], found["metadata"]["name"])
        text = (found.get("data") or {}).get(BINDINGS_KEY)
        with self._lock:
            before = self._bindings.pop(key, None)
            if before != text:
                self._answers.pop(before or "", None)
            if text is not None and kind != "DELETED":
                self._bindings[key] = text

    def _start(self, pod: dict[str, Any], address: str) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        try:
            self._client.request(
                "PATCH", path, {"metadata": {"uid": metadata["uid"]}, "status": status(pod, address)},
                "application/merge-patch+json",
            )  # fmt: skip
        except ScaleError as error:
            if not any(f": {gone} " in str(error) for gone in (404, 409)):  # deleted meanwhile, or another of its name
                raise


def status(pod: dict[str, Any], address: str) -> dict[str, Any]:
    """Return the status of a ready pod."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    containers = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for one in pod["spec"]["containers"]
    ]
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": [{"type": one, "status": "True", "lastTransitionTime": now} for one in conditions],
        "containerStatuses": containers,
    }


@contextmanager
def nodes(client: Client) -> Iterator[None]:
    """Run the stand-ins in a context.

    Raises:
        ScaleError: their port is in use.
    """
    made = Nodes(client)
    with _server(made), watched(client, CONFIG_MAPS, made.config_map), watched(client, PODS, made.pod):
        yield


@contextmanager
def _server(made: Nodes) -> Iterator[None]:
    class Handler(QuietHandler):
        def body(self) -> bytes | None:
            return made.answer(self.connection.getsockname()[0])

    class Server(ThreadingHTTPServer):
        request_queue_size = 512

        def server_bind(self) -> None:
            # All addresses of 127.0.0.0/8, and no other.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
            super().server_bind()

    try:
        server = Server(("0.0.0.0", PORT_HTTP), Handler)
    except OSError as error:
        raise ScaleError(f"port {PORT_HTTP}, which all brokers have, is in use here: {error}") from None
    with serving(server, "brokers"):
        yield
