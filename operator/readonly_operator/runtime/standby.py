"""Health of a process that waits for the Lease; kopf, which answers the probes of the leader, does not run yet."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def standing_by(liveness: str | None) -> Iterator[None]:
    """Answer the liveness probe within the context.

    Args:
        liveness: where, as `http://HOST:PORT/PATH`; None for nowhere.

    Raises:
        OSError: the address cannot be listened on.
    """
    if liveness is None:
        yield
        return
    parts = urlsplit(liveness)

    class Handler(BaseHTTPRequestHandler):
        """Answer that the process waits."""

        def do_GET(self) -> None:
            """See BaseHTTPRequestHandler."""
            known = self.path == parts.path
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"controller": "waits for the Lease"}' if known else b"{}")

        def log_message(self, *_: object) -> None:
            """Log nothing: probes come every few seconds."""

    server = ThreadingHTTPServer((parts.hostname or "", parts.port or 80), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="standby", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
