"""Stand-ins for source clusters, which answer the operator's requests at once, so that pools have a source."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PORT = 23760
EXPLICIT_LAC = {"bookkeeperExplicitLacIntervalInMills": "200"}


@contextmanager
def writers(count: int) -> Iterator[tuple[dict[str, Any], ...]]:
    """Run `count` stand-ins in a context; yield their `spec.source` for pools."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_writer(FIRST_PORT + number)) for number in range(count))


@contextmanager
def _writer(port: int) -> Iterator[dict[str, Any]]:
    host = f"127.0.0.1:{port}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer: Any = EXPLICIT_LAC if self.path.endswith("/configuration/runtime") else [host]
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: requests would hide the progress."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name=f"writer-{port}", daemon=True)
    thread.start()
    try:
        yield {"serviceUrl": f"pulsar://{host}", "adminUrl": f"http://{host}", "metadataStoreUrl": f"zk:{host}"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
