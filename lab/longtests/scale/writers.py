"""Stand-ins for source clusters, which answer the operator's requests at once, so that pools have a source."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from longtests.scale.serving import QuietHandler, serving

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

    class Handler(QuietHandler):
        def body(self) -> bytes:
            answer: Any = EXPLICIT_LAC if self.path.endswith("/configuration/runtime") else [host]
            return json.dumps(answer).encode()

    with serving(ThreadingHTTPServer(("127.0.0.1", port), Handler), f"writer-{port}"):
        yield {"serviceUrl": f"pulsar://{host}", "adminUrl": f"http://{host}", "metadataStoreUrl": f"zk:{host}"}
