"""An HTTP server on loopback whose answers a test gives."""

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

_POLL_INTERVAL_S: Final = 0.02
"""Time that the end of a server takes at most."""


class HttpRequest(NamedTuple):
    """A request that the server got; the path is as sent, with its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    """Of connections that no thread has accepted yet. Beyond it a client waits for seconds until it tries again."""


@contextlib.contextmanager
def played_http(
    answer: Callable[[HttpRequest], tuple[Any, ...]], context: ssl.SSLContext | None = None
) -> Iterator[int]:
    """Serve until the end of the block; yield the port.

    Args:
        answer: return status, body, and headers if there are any. It is called in a thread of each connection. Bytes are sent as
            they are, None as no body, and any other body as JSON.
        context: for TLS.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
            status, found, *more = answer(HttpRequest(self.command, self.path, self.headers, sent))
            body = found if isinstance(found, bytes) else b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(more[0] if more else {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_DELETE = do_PATCH = do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with _Server(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_INTERVAL_S,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(10)
