"""Answers to the probes of the kubelet, in all phases of the process.

A process that waits for the Lease is alive and ready: it does its work, and a rollout must not wait for it to lead. A leader is
ready once it has listed all objects. It is alive while its threads and kopf's event loop are.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL_INTERFACES = "*"
"""Host of an address: all addresses of this machine, of IPv4 and of IPv6."""
READY_PATH = "/readyz"
"""Path of the readiness probe; the liveness probe has the path of its URL."""
LOOP_SECONDS = 60.0
"""How long the event loop may not run before the process counts as stuck."""
START_SECONDS = 180.0
"""How long a leader may wait for the definitions and the API server before it counts as stuck."""
TIMEOUT_SECONDS = 5.0
"""How long a connection may be silent."""


class Running(Protocol):
    """Part of the process that reconciles."""

    def alive(self) -> bool:
        """Return whether all threads run, and none is stuck."""
        ...


class Health:
    """State of the process.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: Running | None = None
        self._leads_since: float | None = None
        self._looped = clock()

    def lead(self) -> None:
        """Note that this process holds the Lease, or needs none."""
        self._leads_since = self._looped = self._clock()

    def run(self, running: Running | None) -> None:
        """Note what reconciles from now on; None while it starts again."""
        self._running = running
        if running is None and self._leads_since is not None:
            self._leads_since = self._clock()

    def beat(self) -> None:
        """Note that the event loop runs."""
        self._looped = self._clock()

    def problem(self) -> str:
        """Return why the process is stuck; empty while it is alive."""
        if self._leads_since is None:
            return ""
        now = self._clock()
        if now - self._looped > LOOP_SECONDS:
            return "the event loop is stuck"
        if self._running is None:
            return "the start takes too long" if now - self._leads_since > START_SECONDS else ""
        return "" if self._running.alive() else "a worker is stuck or has ended"

    def unready(self) -> str:
        """Return why the process is not ready; empty when it is."""
        if self._leads_since is not None and self._running is None:
            return "the objects are not listed yet"
        return self.problem()


@contextmanager
def answering(health: Health, liveness: str | None) -> Iterator[None]:
    """Answer probes within the context.

    Args:
        health: state of the process.
        liveness: URL of the liveness probe, `http://HOST:PORT/PATH`; readiness has READY_PATH there. None for no probes.

    Raises:
        OSError: the address cannot be listened on.
    """
    if liveness is None:
        yield
        return
    parts = urlsplit(liveness)
    checks = {READY_PATH: health.unready, parts.path: health.problem}

    class Handler(BaseHTTPRequestHandler):
        """Answer a probe."""

        timeout = TIMEOUT_SECONDS

        def do_GET(self) -> None:
            """See BaseHTTPRequestHandler."""
            check = checks.get(urlsplit(self.path).path)
            problem = "no such path" if check is None else check()
            status = HTTPStatus.NOT_FOUND if check is None else HTTPStatus.OK
            if check is not None and problem:
                status = HTTPStatus.SERVICE_UNAVAILABLE
            body = (problem or "ok").encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: probes come every few seconds."""

    host = local_host(parts.hostname or "")

    class Server(ThreadingHTTPServer):
        """Server of the host's address family."""

        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

        def server_bind(self) -> None:
            """See socketserver.TCPServer; `::` accepts connections of IPv4 too."""
            if host == "::":
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            TCPServer.server_bind(self)  # HTTPServer's would resolve the host's name
            self.server_name, self.server_port = host, parts.port or 80

    server = Server((host, parts.port or 80), Handler)
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=TIMEOUT_SECONDS)


def local_host(host: str) -> str:
    """Return the address to bind for the host of an address; `::` of a dual-stack socket for ALL_INTERFACES.

    Without IPv6 in the kernel, ALL_INTERFACES is the address of all interfaces of IPv4.
    """
    if host != ALL_INTERFACES:
        return host
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - in a pod a server listens on all
