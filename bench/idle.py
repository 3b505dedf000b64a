"""`python -m bench.idle`: what very many quiet clients cost one read-only broker.

Each client has a connection of its own and one consumer; nothing is published while it is measured. CPU is that of the
broker's process in user and kernel mode, memory its resident bytes above those before the first client came.
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

BEGIN: Final = "<!-- idle: made by make bench-idle -->"
END: Final = "<!-- end of idle -->"
BASE_PORT: Final = 24750
CONNECTIONS: Final = 10_000
SETTLE_S: Final = 60.0
"""From the last client's arrival to the measurement: what the arrival left to do is done then."""

A_PROCESS: Final = 5_000
"""Clients in one process; each process has an address of its own, so that no source port runs out."""

OPEN_TIMEOUT_S: Final = 600.0
MAX_CPU: Final = 0.02
MAX_BYTES: Final = 25_000


@dataclass(frozen=True, slots=True)
class Case:
    """Clients of one kind.

    Attributes:
        name: as in the table.
        kind: the subscription type.
        subscription: its name, where # is the client's number.
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
    """What one case came to.

    Attributes:
        case: its name.
        connections: clients.
        opened_s: how long it took until all were in.
        empty_bytes: resident in the broker before the first.
        full_bytes: resident with all of them, after the measurement.
        cpu: of the broker while quiet, as a part of one core.
        owner_cpu: of the topic's owner in the same time.
        seconds: how long it was measured.
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
        """Resident bytes for a connection and its consumer."""
        return (self.full_bytes - self.empty_bytes) / self.connections

    @property
    def passed(self) -> bool:
        """Whether both are within their limits."""
        return self.cpu < MAX_CPU and self.bytes_each <= MAX_BYTES


def table(results: Sequence[Result]) -> str:
    """Markdown."""
    lines = [
        "| consumers | connections | all in after | CPU of the engine | KB a connection | engine, empty | CPU of the owner |",
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
        case: what kind of clients.
        count: how many in all.

    Raises:
        DevstackError: not all of them got in.
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
        """End them, and make sure that each was served all the time.

        Raises:
            DevstackError: one was not.
        """
        for client in self._processes:
            assert client.stdin is not None
            client.stdin.close()
            told = self._line(client)
            if told["ended"] or told["messages"]:
                raise DevstackError(f"the clients were not left in peace: {told}")

    def kill(self) -> None:
        """End those that still run."""
        for client in self._processes:
            if client.poll() is None:
                client.kill()
            client.wait()

    @staticmethod
    def _line(client: subprocess.Popen[str]) -> Any:
        assert client.stdout is not None
        line = client.stdout.readline()
        if not line:
            raise DevstackError("a process of idle clients ended before its time; its error is above")
        return json.loads(line)


def measure(stack: PulsarCluster, case: Case, connections: int, settle_s: float, seconds: float) -> Result:
    """Let the clients in, wait until all is quiet, and measure.

    Raises:
        DevstackError: not all of the clients got in or stayed.
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
            say(f"{case.name}: {connections:,} clients come in")
            with Clients(f"127.0.0.1:{broker.port}", topic, case, connections) as clients:
                say(f"{case.name}: all in after {clients.opened_s:.0f} s; measuring")
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
    """One message through the broker: what the first of anything costs is not a client's."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(topic, "first")
    client.create_producer(topic).send(b"first")
    consumer.acknowledge(consumer.receive(30_000))
    consumer.unsubscribe()
    client.close()


def main(argv: list[str] | None = None) -> int:
    """Run it all; exit status 1 where it could not be measured or is beyond the limits."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="clients (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=3.0, help="of quiet that are measured (default %(default)s)")
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before that (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/performance.md")
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
    try:
        stack.up()
        try:
            results = [
                measure(stack, case, arguments.connections, arguments.settle, arguments.minutes * 60) for case in CASES
            ]
        finally:
            if not arguments.keep:
                stack.down(purge=True)
    except DevstackError as error:
        print(f"bench.idle: {error}", file=sys.stderr)  # noqa: T201
        return 1
    made = table(results)
    print(made)  # noqa: T201
    if arguments.write:
        note = f"Pulsar {stack.spec.version}, {machine()}, {arguments.minutes:g} minutes measured.\n"
        DOCUMENT.write_text(insert(DOCUMENT.read_text(encoding="utf-8"), f"{note}\n{made}"), encoding="utf-8")
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    run_program(main)
