"""The read-only brokers of the demo."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from readonly_engine.demo.report import dispatched_by_subscription
from readonly_engine.demo.source_cluster import HOST, answers, free_ports

if TYPE_CHECKING:
    from readonly_engine.demo.children import Child, Children
    from readonly_engine.demo.source_cluster import SourceCluster

BROKERS: Final = 2
START_TIMEOUT_S: Final = 60.0
_ATTEMPT: Final = ClientTimeout(total=5)


class Broker:
    """A read-only broker.

    Args:
        name: its name in the report.
        child: its process.
        port: its port for clients.
        http_port: its HTTP port.

    Attributes:
        dispatched: messages dispatched to each subscription, as last seen.
    """

    def __init__(self, name: str, child: Child, port: int, http_port: int) -> None:
        self.name = name
        self.child = child
        self.address = f"{HOST}:{port}"
        self.http_url = f"http://{HOST}:{http_port}"
        self.dispatched: dict[str, int] = {}


class Pool:
    """A pool of read-only brokers, each a process.

    Args:
        children: starts processes.
        cluster: the source cluster.
        name: name of the pool.
        topic: the topic that it serves.
        token_file: token for the admin API; empty for none.
    """

    def __init__(self, children: Children, cluster: SourceCluster, name: str, topic: str, token_file: str) -> None:
        self._children = children
        self._options = [
            *("--metadata-store-url", cluster.metadata_store, "--service-url", cluster.service_url),
            *("--admin-url", cluster.admin_url, "--pool", name, "--topics", topic),
            *(("--admin-token-file", token_file) if token_file else ()),
        ]
        self.brokers: list[Broker] = []

    @property
    def url(self) -> str:
        """Service URL for clients."""
        return "pulsar://" + ",".join(broker.address for broker in self.brokers)

    @property
    def dispatched(self) -> int:
        """Messages dispatched by all brokers, as last seen."""
        return sum(sum(broker.dispatched.values()) for broker in self.brokers)

    async def start(self) -> None:
        """Start the brokers, and wait until each sees all members.

        Raises:
            DemoError: a broker ends or is not ready in time.
        """
        ports = free_ports(2 * BROKERS)
        for number in range(BROKERS):
            await self._start(f"broker {number + 1}", ports[number], ports[BROKERS + number])
        await self._wait_members(len(self.brokers))

    async def replace(self, broker: Broker) -> None:
        """Start a broker again that has ended, on its ports."""
        ports = [int(text.rpartition(":")[2]) for text in (broker.address, broker.http_url)]
        self.brokers.remove(broker)
        await self._start(broker.name, *ports)
        await self._wait_members(len(self.brokers))

    async def _start(self, name: str, port: int, http_port: int) -> None:
        command = [
            *(sys.executable, "-m", "readonly_engine.command", "serve", *self._options),
            *("--listen", f"{HOST}:{port}", "--http", f"{HOST}:{http_port}"),
        ]
        child = await self._children.start(f"read-only {name}", command)
        self.brokers.append(Broker(name, child, port, http_port))

    async def _wait_members(self, count: int) -> None:
        async with ClientSession(timeout=_ATTEMPT) as session:

            async def complete(broker: Broker) -> bool:
                if not await answers(session, f"{broker.http_url}/readyz"):
                    return False
                try:
                    async with session.get(f"{broker.http_url}/stats") as response:
                        document: Any = json.loads(await response.text())
                except (ClientError, OSError, TimeoutError):
                    return False
                return len(document["brokers"]) >= count

            for broker in self.brokers:
                await broker.child.ready(lambda broker=broker: complete(broker), START_TIMEOUT_S)  # type: ignore[misc]

    async def count_dispatched(self) -> None:
        """Read the dispatched messages of each broker that answers."""
        async with ClientSession(timeout=_ATTEMPT) as session:
            for broker in self.brokers:
                if broker.child.alive:
                    with suppress(ClientError, OSError, TimeoutError):
                        async with session.get(f"{broker.http_url}/metrics") as response:
                            broker.dispatched = dispatched_by_subscription(await response.text())
                    broker.child.cpu_s()
