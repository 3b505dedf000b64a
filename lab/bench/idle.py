"""`python -m bench.idle`: CPU and memory of one read-only broker with very many quiet clients.

Each client has a connection of its own and one consumer. Nothing is published during the measurement. CPU is that of the broker's
process in user and kernel mode. Memory is the growth of its resident memory since the first client.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pulsar

from bench.cpu import cpu_seconds, resident_bytes
from bench.document import machine
from bench.storage import DOCUMENT
from devstack.common import processes
from devstack.console import say
from devstack.errors import DevstackError
from devstack.pool import Pool
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

BEGIN: Final = "<!-- idle: made by make -C lab bench-idle -->"
END: Final = "<!-- end of idle -->"
BASE_PORT: Final = 24750
CONNECTIONS: Final = 10_000
SETTLE_S: Final = 60.0
"""Time from the last client's SUBSCRIBE to the measurement, so that the effects of the connects are over."""

A_PROCESS: Final = 5_000
"""Clients per process. Each process has an address of its own, so that there are enough source ports."""

OPEN_TIMEOUT_S: Final = 600.0
MAX_CPU: Final = 0.02
MAX_BYTES: Final = 25_000


@dataclass(frozen=True, slots=True)
class Case:
    """Clients of one kind.

    Attributes:
        name: name in the table.
        kind: type of the subscription.
        subscription: its name; `#` is the client's number.
    """

    name: str
    kind: str
    subscription: str


CASES: Final = (
    Case("one Shared subscription", "Shared", "idle"),
    Case("an Exclusive subscription each", "Exclusive", "idle-#"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one case.

    Attributes:
        case: name of the case.
        connections: number of clients.
        opened_s: seconds until all clients were connected.
        empty_bytes: resident memory of the broker before the first client.
        full_bytes: resident memory with all clients, after the measurement.
        cpu: CPU of the broker, as a share of one core.
        owner_cpu: CPU of the topic's owner, as a share of one core.
        seconds: duration of the measurement.
    """

    case: str
    connections: int
    opened_s: float
    empty_bytes: int
    full_bytes: int
    cpu: float
    owner_cpu: float
    seconds: float

    @property
    def bytes_each(self) -> float:
        """Resident bytes per connection with its consumer."""
        return (self.full_bytes - self.empty_bytes) / self.connections

    @property
    def passed(self) -> bool:
        """Whether CPU and memory are within their limits."""
        return self.cpu < MAX_CPU and self.bytes_each <= MAX_BYTES


def table(results: Sequence[Result]) -> str:
    """Return the table as Markdown."""
    lines = [
        (
            "| consumers | connections | all connected after | CPU of the read-only broker | KB per connection "
            "| broker without clients | CPU of the owner |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.case} | {r.connections:,} | {r.opened_s:.0f} s | {r.cpu:.2%} of a core | {r.bytes_each / 1000:.1f} "
        f"| {r.empty_bytes / 1e6:.0f} MB | {r.owner_cpu:.2%} |"
        for r in results
    ]
    return "\n".join(lines)


def insert(document: str, made: str) -> str:
    """Put the table between its two marks."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


class Clients:
    """Processes of idle clients.

    Args:
        broker: HOST:PORT.
        topic: the topic.
        case: kind of the clients.
        count: number of all clients.

    Raises:
        DevstackError: a client could not connect.
    """

    def __init__(self, broker: str, topic: str, case: Case, count: int) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        options = ["--broker", broker, "--topic", topic, "--subscription", case.subscription, "--type", case.kind]
        for index, first in enumerate(range(0, count, A_PROCESS)):
            part = ["--first", str(first), "--count", str(min(A_PROCESS, count - first))]
            self._processes.append(
                subprocess.Popen(  # noqa: S603
                    [sys.executable, "-m", "bench.idle_clients", *options, *part, "--source", f"127.0.0.{2 + index}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        try:
            self.opened_s = max(self._line(client)["seconds"] for client in self._processes)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def finish(self) -> None:
        """End all clients, and check that each stayed connected.

        Raises:
            DevstackError: a client was disconnected or got a message.
        """
        for client in self._processes:
            assert client.stdin is not None
            client.stdin.close()
            counts = self._line(client)
            if counts["ended"] or counts["messages"]:
                raise DevstackError(f"clients were disconnected or got messages: {counts}")

    def kill(self) -> None:
        """Kill the processes that still run."""
        for client in self._processes:
            if client.poll() is None:
                client.kill()
            client.wait()

    @staticmethod
    def _line(client: subprocess.Popen[str]) -> Any:
        assert client.stdout is not None
        line = client.stdout.readline()
        if not line:
            raise DevstackError("a process of idle clients ended unexpectedly; its error is above")
        return json.loads(line)


def measure(stack: PulsarCluster, case: Case, connections: int, settle_s: float, seconds: float) -> Result:
    """Connect the clients, wait, and measure.

    Raises:
        DevstackError: a client could not connect, or was disconnected.
    """
    topic = f"persistent://public/default/idle-{uuid.uuid4().hex[:8]}"
    stack.admin().create_topic(topic)
    owner = stack.endpoints.brokers.index(stack.admin().lookup(topic))
    record = processes.running(stack.state.record(f"broker-{owner}"))
    assert record is not None
    with tempfile.TemporaryDirectory() as name:
        pool = Pool(stack.endpoints, Path(name), uuid.uuid4().hex, ["--topics", topic, "--log-level", "warning"])
        try:
            (broker,) = pool.start()
            _one_message(broker.url, topic)
            pid = broker.process.pid
            empty = resident_bytes([pid])
            say(f"{case.name}: {connections:,} clients connect")
            with Clients(f"127.0.0.1:{broker.port}", topic, case, connections) as clients:
                say(f"{case.name}: all connected after {clients.opened_s:.0f} s; measuring")
                time.sleep(settle_s)
                begin, cpu, owner_cpu = time.monotonic(), cpu_seconds([pid]), cpu_seconds([record.pid])
                time.sleep(seconds)
                took = time.monotonic() - begin
                result = Result(
                    case=case.name,
                    connections=connections,
                    opened_s=clients.opened_s,
                    empty_bytes=empty,
                    full_bytes=resident_bytes([pid]),
                    cpu=(cpu_seconds([pid]) - cpu) / took,
                    owner_cpu=(cpu_seconds([record.pid]) - owner_cpu) / took,
                    seconds=took,
                )
                clients.finish()
        finally:
            pool.close()
    stack.admin().delete_topic(topic)
    return result


def _one_message(url: str, topic: str) -> None:
    """Send one message through the broker, so that first-use costs are not part of the clients' memory."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(topic, "first")
    client.create_producer(topic).send(b"first")
    consumer.acknowledge(consumer.receive(30_000))
    consumer.unsubscribe()
    client.close()


def main(argv: list[str] | None = None) -> int:
    """Measure all cases.

    Returns:
        The exit status: 0 for success, 1 if a case cannot be measured or exceeds the limits.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="clients (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=3.0, help="duration of a measurement (default %(default)s)")
    parser.add_argument(
        "--settle", type=float, default=SETTLE_S, help="seconds before the measurement (default %(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/performance-parts.md")
    parser.add_argument(
        "--base-port", type=int, default=BASE_PORT, help="first port of the stack (default %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the stack running")
    arguments = parser.parse_args(argv)
    stack = PulsarCluster(
        PulsarSpec(
            name="idle",
            base_port=arguments.base_port,
            bookies=2,
            brokers=1,
            settings=(Setting("broker", "defaultRetentionTimeInMinutes", "60"),),
        )
    )
    stack.up()
    try:
        results = [
            measure(stack, case, arguments.connections, arguments.settle, arguments.minutes * 60) for case in CASES
        ]
    finally:
        if not arguments.keep:
            stack.down(purge=True)
    made = table(results)
    print(made)  # noqa: T201
    if arguments.write:
        note = f"Pulsar {stack.spec.version}, {machine()}, measured for {arguments.minutes:g} min.\n"
        DOCUMENT.write_text(insert(DOCUMENT.read_text(encoding="utf-8"), f"{note}\n{made}"), encoding="utf-8")
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    run_program(main)
