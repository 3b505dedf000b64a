"""The broker's HTTP endpoints."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from readonly_engine.http.access import OPEN
from readonly_engine.http.backlog_age import BacklogAges
from readonly_engine.http.bookie_metrics import BookieCollector
from readonly_engine.http.bound import BoundTopics
from readonly_engine.http.certificate_metrics import CertificateCollector
from readonly_engine.http.confirmed import LacUnavailableError, LastConfirmed
from readonly_engine.http.exposition import Exposition
from readonly_engine.http.guard import HttpPort
from readonly_engine.http.loop_delay import EventLoopDelay
from readonly_engine.http.metrics import BrokerCollector
from readonly_engine.http.owner_metrics import OwnerCollector
from readonly_engine.http.process_metrics import WAIT_S, BuildCollector, ProcessMetrics
from readonly_engine.http.stats import Statistics
from readonly_engine.http.status.gather import About, Gatherer
from readonly_engine.http.status.handler import StatusPages
from readonly_engine.http.status.slices import Slices
from readonly_engine.http.store_metrics import StoreCollector
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.topic_name import TopicName, decode_name
from readonly_engine.owner.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.http.access import HttpAccess
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.connect import ClusterStores
    from readonly_engine.topic.cache import EntryCache


NOTHING_KNOWN: Final = About()
NO_BUILD: Final[Mapping[str, str]] = MappingProxyType({})
NO_CERTIFICATES: Final[Mapping[str, Path]] = MappingProxyType({})


class HttpServer:
    """Serves the paths of one broker.

    /, /status, /pool, /pool/status, /healthz, /readyz, /metrics, /bindings, /bindings/topics, /idle, /explicit-lac,
    /stats, and topics' statistics.

    Args:
        broker: the broker.
        stores: the metadata stores; readiness requires their connections.
        cache: the entry cache.
        cluster: lists topics.
        bookies: connections to bookies, for the last confirmed entry.
        about: facts about this broker, for the status page.
        build: the build of this process, as labels of a metric (BUILD_LABELS).
        certificates: files of certificates, by their options.
        access: TLS and token of the port.
    """

    def __init__(
        self,
        broker: Broker,
        stores: ClusterStores,
        cache: EntryCache,
        cluster: ClusterMetadata,
        bookies: BookiePool,
        about: About = NOTHING_KNOWN,
        build: Mapping[str, str] = NO_BUILD,
        certificates: Mapping[str, Path] = NO_CERTIFICATES,
        access: HttpAccess = OPEN,
    ) -> None:
        self._broker = broker
        self._bound = BoundTopics(broker, cluster)
        self._confirmed = LastConfirmed(broker, cluster, bookies)
        self._statistics = Statistics(broker)
        self._status_pages = StatusPages(Gatherer(broker, stores, about), access)
        self._access = access
        self._stores = stores
        self._ages = BacklogAges(broker)
        self._exposition = Exposition(BrokerCollector(broker, cache, self._ages).collect)
        self._loop_delay = EventLoopDelay()
        self._registry = CollectorRegistry()
        self._registry.register(StoreCollector(stores))
        self._registry.register(BookieCollector(bookies.statistics))
        self._registry.register(OwnerCollector(broker.owners.durations))
        self._registry.register(CertificateCollector(certificates))
        self._registry.register(self._loop_delay)
        self._registry.register(BuildCollector(build))
        self._process = ProcessMetrics()
        self._flight: SingleFlight[bytes] = SingleFlight()
        self._cluster = cluster
        self._bookkeeper_instance = ""
        self._tasks = 0
        self._port: HttpPort | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        app = web.Application()
        self._status_pages.add_routes(app)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/bindings", self._bindings)
        app.router.add_get("/bindings/topics", self._bound_topics)
        app.router.add_get("/idle", self._idle)
        app.router.add_get("/explicit-lac", self._explicit_lac)
        app.router.add_get("/stats", self._stats)
        app.router.add_get("/admin/v2/persistent/{tenant}/{namespace}/{topic}/stats", self._topic_stats)
        self._loop_delay.start()
        self._port = HttpPort(app, access=self._access)
        await self._port.start(host, port)

    async def close(self) -> None:
        """Close the port."""
        self._bound.close()
        self._ages.close()
        self._exposition.close()
        self._loop_delay.stop()
        if self._port is not None:
            await self._port.close()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if not self._stores.connected:
            reason = "not connected to the metadata store"
        elif not self._broker.listening:
            reason = "not listening yet"
        elif not self._broker.pool.joined:
            reason = "not a member of the pool"
        else:
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"{reason}\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        await self._ages.measure()
        process = await self._process.text()
        broker = await self._exposition.text()
        body = broker + generate_latest(self._registry) + process
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _bindings(self, _request: web.Request) -> web.Response:
        return _json(await self._flight.run("bindings", self._bindings_text))

    async def _bindings_text(self) -> bytes:
        bindings = self._broker.bindings
        document = {
            "revision": bindings.revision,
            "error": self._broker.bindings_error,
            "bindings": await self._bound.documents(),
            "bookkeeper_instance": await self._instance(),
        }
        return json.dumps(document).encode()

    async def _instance(self) -> str:
        """Return the id of the BookKeeper cluster, by which the operator compares source clusters; empty while it is unknown."""
        if not self._bookkeeper_instance:
            with suppress(MetadataError, TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    self._bookkeeper_instance = await self._cluster.bookkeeper_id()
        return self._bookkeeper_instance

    async def _bound_topics(self, request: web.Request) -> web.Response:
        name = request.query.get("binding", "")
        topics = await self._bound.topics(name)
        if topics is None:
            return web.json_response({"reason": f"the topics of binding {name!r} are unknown"}, status=404)
        return web.json_response({"topics": topics})

    async def _idle(self, _request: web.Request) -> web.Response:
        return web.json_response({"seconds": round(self._broker.idle_seconds, 1)})

    async def _explicit_lac(self, request: web.Request) -> web.Response:
        try:
            return web.json_response(await self._confirmed.document(request.query.get("topic", "")))
        except LacUnavailableError as error:
            return web.json_response({"reason": str(error)}, status=error.status)

    async def _stats(self, _request: web.Request) -> web.Response:
        return _json(await self._flight.run("stats", self._stats_text))

    async def _stats_text(self) -> bytes:
        # In a thread, because that lists all tasks: there are several for each client. The last count if no thread is free.
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                self._tasks = len(await asyncio.to_thread(asyncio.all_tasks, asyncio.get_running_loop()))
        return await self._statistics.document(Slices(), self._tasks)

    async def _topic_stats(self, request: web.Request) -> web.Response:
        tenant, namespace, name = (request.match_info[key] for key in ("tenant", "namespace", "topic"))
        topic = TopicName("persistent", tenant, namespace, decode_name(name))
        stats = await self._statistics.topic(topic, Slices())
        if stats is None:
            return web.json_response({"reason": f"{topic} has no consumers on this broker"}, status=404)
        return _json(stats)


def _json(text: bytes) -> web.Response:
    return web.Response(body=text, content_type="application/json", charset="utf-8")
