"""A source cluster on loopback for tests: a broker, an admin API, a bookie, and a metadata store in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web
from readonly_engine.config.reader import make_config
from readonly_engine.config.settings import EngineConfig
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.errors import AccessDeniedError, MetadataUnavailableError
from readonly_engine.metadata.store import Versioned
from readonly_engine.wire.bookkeeper_pb2 import (
    ENOLEDGER,
    READ_LAC,
    BookieServiceInfoFormat,
    ReadLacResponse,
    Request,
    Response,
)
from readonly_engine.wire.framing import FrameSplitter

from tests.support.answering import answering
from tests.support.ledgers import ledger_list

SETTINGS = {
    "metadata-store-url": "zk:127.0.0.1:1",
    "service-url": "pulsar://127.0.0.1:1",
    "admin-url": "http://127.0.0.1:1",
}


def config_of(**settings: Any) -> EngineConfig:
    """Return options of a broker; names have underscores."""
    given = {name.replace("_", "-"): value for name, value in settings.items()}
    return make_config({**SETTINGS, **given}, {}, topics_required=False)


class MemoryStore:
    """A metadata store with these nodes; paths in `denied` are refused. It counts what would change it."""

    def __init__(self, nodes: dict[str, bytes]) -> None:
        self.nodes, self.denied, self.checked, self.closed = nodes, set(), [], False
        self.connected, self.slow, self.failure = True, 0.0, None

    async def start(self) -> None:
        await asyncio.sleep(self.slow)
        if self.failure is not None:
            raise self.failure

    async def get(self, path: str) -> Versioned | None:
        self._check(path)
        value = self.nodes.get(path)
        return None if value is None else Versioned(value, 0)

    async def children(self, path: str) -> frozenset[str] | None:
        self._check(path)
        below = {name[len(path) + 1 :].partition("/")[0] for name in self.nodes if name.startswith(f"{path}/")}
        return frozenset(below) if below or path in self.nodes else None

    async def check_writable(self, path: str) -> None:
        self.checked.append(path)
        self._check(path.rpartition("/")[0])

    async def close(self) -> None:
        self.closed = True

    def _check(self, path: str) -> None:
        if path in self.denied:
            raise AccessDeniedError(f"the right on {path} is missing")
        if self.failure is not None:
            raise MetadataUnavailableError("no answer")


class MemoryStores:
    """ClusterStores with one store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.main = self.bookkeeper = store
        self.cluster = ClusterMetadata(store)  # type: ignore[arg-type] # it writes nothing
        self.start, self.close = store.start, store.close


def topic_node(*ledgers: int) -> bytes:
    """Return the value of a topic's node."""
    return ledger_list(*ledgers).SerializeToString()


def bookie_node(host: str, port: int) -> bytes:
    """Return the value of a bookie's registration."""
    info = BookieServiceInfoFormat()
    info.endpoints.add(host=host, port=port, protocol="bookie-rpc")
    return info.SerializeToString()


class _Bookie(asyncio.Protocol):
    """A bookie before 4.17: it knows no ledger, and closes the connection at a batch read."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.splitter = transport, FrameSplitter()

    def data_received(self, data: bytes) -> None:
        for frame in self.splitter.receive_data(data):
            request = Request()
            try:
                request.ParseFromString(frame)
            except Exception:  # noqa: BLE001 - a request of version 2
                self.transport.close()
                return
            if request.header.operation != READ_LAC:
                self.transport.close()
                return
            answer = Response(header=request.header, status=ENOLEDGER)
            answer.read_lac_response.CopyFrom(
                ReadLacResponse(status=ENOLEDGER, ledger_id=request.read_lac_request.ledger_id)
            )
            body = answer.SerializeToString()
            self.transport.write(len(body).to_bytes(4, "big") + body)


@contextlib.asynccontextmanager
async def old_bookie() -> AsyncIterator[tuple[str, int]]:
    """Run a bookie before 4.17; yields its host and port."""
    server = await asyncio.get_running_loop().create_server(_Bookie, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        server.close()


class AdminApi:
    """An admin API with these answers by path: a document, or a status. It counts requests other than GET."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {"brokers/version": "4.0.8", **answers}
        self.token, self.changes, self.asked = "", 0, []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.changes += request.method != "GET"
        path = request.path.removeprefix("/admin/v2/")
        self.asked.append(path)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401)
        found = self.answers.get(path, 404)
        if isinstance(found, int):
            return web.Response(status=found)
        if isinstance(found, str):
            return web.Response(text=found, content_type="application/json")
        return web.json_response(found)

    def serving(self) -> contextlib.AbstractAsyncContextManager[str]:
        """Run it; yields its URL."""
        return answering(self.answer)
