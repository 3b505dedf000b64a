"""Servers of benches: a Pulsar with a stock broker's JVM, and read-only brokers."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.cpu import Meter, cpu_seconds, resident_bytes
from bench.plan import TAIL, Plan
from devstack.common import processes
from devstack.console import say
from devstack.errors import DevstackError
from devstack.pool import Pool
from devstack.pulsar.admin import AdminError
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import STOCK_VERSION, PulsarSpec, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from devstack.pool import BrokerProcess

BASE_PORT: Final = 15650
NAME: Final = "bench-brokers"

_MEMORY: Final = "-Xms512m -Xmx3g -XX:MaxDirectMemorySize=1g"
"""A stock broker with 40,000 subscriptions needed 2.4 GB."""

_REQUESTS: Final = 8
_ADMIN_TIMEOUT_S: Final = 300.0
"""For requests behind those of many topics, on a busy machine."""

CALM_S: Final = 1.0
CALM_CPU: Final = 0.1
"""Share of a core below which a server is idle; a JVM alone uses 2 to 4 %."""

CALM_TIMEOUT_S: Final = 60.0


class BenchCluster:
    """A Pulsar with one broker, and the read-only brokers that a bench starts.

    The JVMs run as stock ones do (both compilers, G1), with fsync.

    Args:
        base_port: first of its ports. A cluster on another base port has another name, and may run at the same time.
        keep: whether it keeps running at the end.
        plan: settings of the broker and of the read-only brokers.
        settings: more settings of its servers; they win over those of the plan.
    """

    def __init__(
        self,
        base_port: int = BASE_PORT,
        *,
        keep: bool = False,
        plan: Plan | None = None,
        settings: Sequence[Setting] = (),
    ) -> None:
        self._keep = keep
        plan = plan or Plan()
        self._options = [] if plan.tail == TAIL else ["--tail", plan.tail]  # an older engine may not know the option
        name = replace(plan, tail=TAIL, release=STOCK_VERSION).named(NAME)  # the folder has the release in its name
        self._cluster = PulsarCluster(
            PulsarSpec(
                name=name if base_port == BASE_PORT else f"{name}-{base_port}",
                base_port=base_port,
                bookies=2,
                brokers=1,
                transactions=plan.transactions,
                explicit_lac_ms=plan.explicit_lac_ms,
                settings=(
                    Setting("broker-env", "PULSAR_MEM", _MEMORY),
                    Setting("broker", "defaultRetentionTimeInMinutes", "600"),
                    Setting("broker", "defaultRetentionSizeInMB", "20000"),
                    Setting("broker", "brokerDeleteInactiveTopicsEnabled", "false"),
                    *settings,
                ),
            )
        )
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self.endpoints = self._cluster.endpoints
        self.admin = replace(self._cluster.admin(), timeout=_ADMIN_TIMEOUT_S)
        self.owner = self.endpoints.brokers[0].removeprefix("pulsar://")
        self.version = self._cluster.spec.version

    def __enter__(self) -> Self:
        self._cluster.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()
        if not self._keep:
            self._cluster.down(purge=True)

    def topic_name(self, name: str) -> str:
        """Return a new name of a topic."""
        return f"persistent://public/default/{name}-{uuid.uuid4().hex[:8]}"

    def topic(self, name: str) -> str:
        """Create a topic and return its name."""
        return self.create_topics(self.topic_name(name), 1)[0]

    def create_topics(self, name: str, count: int) -> list[str]:
        """Create topics, loaded at the owner, and return their names.

        Args:
            name: name of the topic; `#` is the number of each of several.
            count: number of topics.
        """
        topics = [name.replace("#", str(number)) for number in range(count)] if count > 1 else [name]
        with ThreadPoolExecutor(_REQUESTS) as pool:
            list(pool.map(self._create, topics))
        return topics

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete topics with their subscriptions. A topic that an owner cannot delete stays; another side has a new one."""
        with ThreadPoolExecutor(_REQUESTS) as pool:
            list(pool.map(self._delete, topics))

    def delete_subscriptions(self, names: Iterable[tuple[str, str]]) -> None:
        """Delete subscriptions, each given by its topic and its name, with their consumers."""
        with ThreadPoolExecutor(_REQUESTS) as pool:
            list(pool.map(lambda one: self.admin.delete_subscription(*one, force=True), names))

    def _delete(self, topic: str) -> None:
        try:
            self.admin.delete_topic(topic)
        except AdminError as error:
            say(f"{topic} is not deleted: {str(error).splitlines()[0]}")

    def _create(self, topic: str) -> None:
        self.admin.create_topic(topic)
        self.admin.lookup(topic)

    def pid(self, server: str) -> int:
        """Return the process id of a server, such as `broker-0`.

        Raises:
            DevstackError: the server does not run.
        """
        running = processes.running(self._cluster.state.record(server))
        if running is None:
            raise DevstackError(f"{server} of the bench's cluster has ended")
        return running.pid

    def groups(self, engine: BrokerProcess | None = None) -> dict[str, list[int]]:
        """Return the process ids of all servers by group."""
        bookies = [self.pid(f"bookie-{i}") for i in range(self._cluster.spec.bookies)]
        groups = {"owner": [self.pid("broker-0")], "bookies": bookies, "zookeeper": [self.pid("zookeeper")]}
        return groups if engine is None else {**groups, "engine": [engine.process.pid]}

    def meter(self, engine: BrokerProcess | None = None) -> Meter:
        """Start to measure all servers."""
        return Meter(self.groups(engine))

    def memory(self, server: str) -> int:
        """Return the resident bytes of a server."""
        return resident_bytes([self.pid(server)])

    def restart_owner(self) -> None:
        """Restart the owner, so that its JVM has compiled nothing."""
        self._cluster.stop_broker(0)
        self._cluster.start_broker(0)

    def kill_owner(self) -> None:
        """Kill the owner, and start it again at once."""
        self._cluster.kill_broker(0)
        self._cluster.start_broker(0)

    def freeze_owner(self, seconds: float) -> None:
        """Let the owner's process stand still."""
        pid = self.pid("broker-0")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    def rest(self) -> None:
        """Wait until the owner is idle, at most for CALM_TIMEOUT_S."""
        deadline = time.monotonic() + CALM_TIMEOUT_S
        while time.monotonic() < deadline:
            before = cpu_seconds([self.pid("broker-0")])
            time.sleep(CALM_S)
            if cpu_seconds([self.pid("broker-0")]) - before < CALM_CPU * CALM_S:
                return

    @contextmanager
    def engine(
        self, *topics: str, options: Sequence[str] = (), python: str = sys.executable
    ) -> Iterator[BrokerProcess]:
        """Start a read-only broker with a pool of its own; end it with the context. Arguments as for `pool`."""
        with self.pool(1, *topics, options=options, python=python) as pool:
            yield pool.brokers[0]

    @contextmanager
    def pool(
        self, count: int, *topics: str, options: Sequence[str] = (), python: str = sys.executable
    ) -> Iterator[Pool]:
        """Start read-only brokers of a new pool; end them with the context.

        Args:
            count: number of brokers.
            topics: names or patterns of the topics that they serve; none if a file of bindings has them.
            options: more options of the command.
            python: interpreter that has the engine installed.
        """
        pool = Pool(
            self.endpoints,
            Path(self._folder.name),
            f"bench-{uuid.uuid4().hex[:8]}",
            [*(["--topics", *topics] if topics else []), "--log-level", "warning", *self._options, *options],
            python,
        )
        try:
            pool.start(count)
            yield pool
        finally:
            pool.close()
