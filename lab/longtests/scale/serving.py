"""HTTP servers of the stand-ins, each in a thread of its own."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Handler of a stand-in."""

    def body(self) -> bytes | None:
        """Return the JSON for this request; None for status 503."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answer a request."""
        body = self.body()
        self.send_response(503 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        """Log nothing: requests would hide the progress."""


@contextmanager
def serving(server: ThreadingHTTPServer, name: str) -> Iterator[None]:
    """Run a bound server in a context, in a thread of this name."""
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
