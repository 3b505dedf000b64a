"""A pool of read-only brokers as processes of this machine, for tests and benches."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from devstack.common.ports import free_port
from devstack.common.run import tail
from devstack.errors import DevstackError
from devstack.pulsar.spec import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from devstack.pulsar.spec import Site
    from devstack.pulsar.status import Endpoints

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 40.0


class BrokerProcess:
    """One `pulsar-readonly serve`.

    Args:
        pulsar: the source cluster.
        log: where its log goes.
        options: more options of the command.
        ports: of clients and of HTTP; free ones by default.
        site: where it runs.
        python: interpreter that has the engine installed; by default the running one.
    """

    def __init__(
        self,
        pulsar: Endpoints,
        log: Path,
        options: Sequence[str],
        ports: tuple[int, int] | None = None,
        site: Site = LOOPBACK,
        python: str = sys.executable,
    ) -> None:
        self.port, self.http_port = ports or (free_port(), free_port())
        self.address = f"{site.host}:{self.port}"
        self.url = f"pulsar://{self.address}"
        self.http_url = f"http://{site.host}:{self.http_port}"
        self.log = log
        arguments = {
            "--metadata-store-url": pulsar.pool_store,
            "--service-url": pulsar.writer_url,
            "--admin-url": pulsar.admin_url,
            "--listen": self.address,
            "--http": f"{site.host}:{self.http_port}",
        }
        if pulsar.bookkeeper_metadata_store:
            arguments["--bookkeeper-metadata-store-url"] = pulsar.bookkeeper_metadata_store
        command = [*site.launcher, python, "-m", "readonly_engine.command", "serve"]
        command += [word for pair in arguments.items() for word in pair]
        command += pulsar.pool_options
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, *options], stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )

    def wait_ready(self) -> None:
        """Wait until it is ready.

        Raises:
            DevstackError: it ended, or is not ready in time.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if (status := self.process.poll()) is not None:
                raise DevstackError(f"read-only broker exited with status {status}", self.log_end())
            try:
                self.get("/readyz")
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise DevstackError(f"read-only broker not ready after {START_TIMEOUT_S:g} s", self.log_end())

    def log_end(self) -> str:
        """Return the last lines of its log."""
        return tail(self.log.read_text(encoding="utf-8", errors="replace"))

    def get(self, path: str) -> str:
        """Return the body of an HTTP response; raise OSError unless its status is 200."""
        with urllib.request.urlopen(self.http_url + path, timeout=5) as response:  # noqa: S310 - our own, on loopback
            return str(response.read().decode())

    def stats(self) -> Any:
        """Return its statistics."""
        return json.loads(self.get("/stats"))

    def dispatched(self, topic: str | None = None) -> int:
        """Return the messages dispatched to its current consumers, of one topic or of all; proxied ones do not count."""
        return sum(
            subscription["msgOutCounter"]
            for name, stats in self.stats()["topics"].items()
            if topic in {None, name}
            for subscription in stats["subscriptions"].values()
            if "servedBy" not in subscription
        )

    def stop(self) -> int:
        """Stop it with SIGTERM; return its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


class Pool:
    """Read-only brokers of one pool.

    Args:
        pulsar: the source cluster.
        folder: where logs go.
        name: the pool's name.
        options: more options for every broker.
        python: interpreter that has the brokers' engine installed; by default the running one.

    Attributes:
        name: as above.
    """

    def __init__(
        self, pulsar: Endpoints, folder: Path, name: str, options: Sequence[str], python: str = sys.executable
    ) -> None:
        self._pulsar = pulsar
        self._folder = folder
        self.name = name
        self._options = ["--pool", name, *options]
        self._python = python
        self.brokers: list[BrokerProcess] = []

    def start(self, count: int = 1) -> list[BrokerProcess]:
        """Add brokers, and wait until each sees all members."""
        started = [
            BrokerProcess(
                self._pulsar, self._folder / f"broker-{len(self.brokers) + i}.log", self._options, python=self._python
            )
            for i in range(count)
        ]
        self.brokers += started
        for broker in started:
            broker.wait_ready()
        self.wait_members(len([broker for broker in self.brokers if broker.process.poll() is None]))
        return started

    def restart(self, index: int) -> BrokerProcess:
        """Restart an ended broker on its ports, and wait until it is ready."""
        old = self.brokers[index]
        new = BrokerProcess(self._pulsar, old.log, self._options, (old.port, old.http_port), python=self._python)
        self.brokers[index] = new
        new.wait_ready()
        return new

    def wait_members(self, count: int) -> None:
        """Wait until every live broker sees this many members.

        Raises:
            DevstackError: not in time.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        live = [broker for broker in self.brokers if broker.process.poll() is None]
        while any(len(broker.stats()["brokers"]) != count for broker in live):
            if time.monotonic() > deadline:
                seen = "\n".join(f"{one.url} sees {one.stats()['brokers']}; its log: {one.log_end()}" for one in live)
                raise DevstackError(f"the pool's brokers do not see {count} members after {START_TIMEOUT_S:g} s", seen)
            time.sleep(0.05)

    @property
    def url(self) -> str:
        """The service URL of all live brokers."""
        live = [broker for broker in self.brokers if broker.process.poll() is None]
        return "pulsar://" + ",".join(f"127.0.0.1:{broker.port}" for broker in live)

    def close(self) -> None:
        """Kill all brokers."""
        for broker in self.brokers:
            if broker.process.poll() is None:
                broker.kill()
