"""Processes of the Spark bench: Sparks with a protocol of lines, a Kafka, and programs that fill topics."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devstack.errors import DevstackError
from devstack.jars.fetch import compiled, ensure_jars
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.spec import DEFAULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

JAVA: Final = Path(__file__).parent / "java"
_COMMON: Final = (JAVA / "Payloads.java", JAVA / "Pace.java")
ANSWER_TIMEOUT_S: Final = 1800.0
START_TIMEOUT_S: Final = 900.0
STOP_TIMEOUT_S: Final = 20.0
# Packages that Spark's own start scripts open on Java 17.
_OPENS: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
OPENS: Final = tuple(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENS)


class Side:
    """A Spark that reads on command.

    Args:
        command: the program.
        log: file of its standard error.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.pid = self._process.pid
        self._answer(START_TIMEOUT_S)

    def ask(self, command: str, source: str, columns: Sequence[str], folder: Path, options: Mapping[str, str]) -> Any:
        """Send a command, and return its answer.

        Raises:
            DevstackError: the program failed, or did not answer in time.
        """
        words = [
            command,
            source,
            ";".join(columns),
            str(folder),
            *(f"{name}={value}" for name, value in options.items()),
        ]
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        return self._answer(ANSWER_TIMEOUT_S)

    def _answer(self, timeout_s: float) -> Any:
        assert self._process.stdout is not None
        watchdog = threading.Timer(timeout_s, self._process.kill)
        watchdog.start()
        try:
            for line in self._process.stdout:
                if line.startswith('{"'):  # other lines are Spark's own
                    return json.loads(line)
        finally:
            watchdog.cancel()
        raise DevstackError("a Spark of the bench ended, or took too long", "\n  ".join(_tail(self._log)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def engine_side(master: str, memory: str, folder: Path) -> Side:
    """Start a Spark with this project's source."""
    return Side([sys.executable, "-m", "bench.spark.engine_side", master, memory], folder / "engine.log")


def java_side(jars_name: str, master: str, memory: str, folder: Path) -> Side:
    """Start a Spark with a JVM source, of the version in its set of jars."""
    jars = ensure_jars(jars_name)
    classes = compiled(f"{jars_name}-side", jars, JAVA / "SparkSide.java")
    options = [f"-Xmx{memory}", "-XX:+IgnoreUnrecognizedVMOptions", *OPENS]
    return Side(["java", *options, "-cp", f"{classes}:{jars}/*", "SparkSide", master], folder / f"{jars_name}.log")


def load_kafka(server: str, topic: str, count: int, payload: tuple[str, int], partitions: int, rate: float = 0) -> int:
    """Fill a new topic of Kafka, and return the checksum of its payloads.

    Args:
        server: the server.
        topic: the topic.
        count: number of messages.
        payload: kind and bytes of each; see Payloads.java.
        partitions: number of partitions.
        rate: messages a second; 0 for no limit.
    """
    jars = ensure_jars("kafka")
    classes = compiled("kafka-load", jars, *_COMMON, JAVA / "KafkaLoad.java")
    words = ["java", "-cp", f"{classes}:{jars}/*", "KafkaLoad", server, topic]
    words += map(str, (count, *payload, partitions, rate))
    ran = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False)  # noqa: S603
    if ran.returncode:
        raise DevstackError("filling the Kafka topic failed", ran.stderr[-1000:])
    return int(ran.stdout.split()[-1])


def load_pulsar(
    server: str,
    topic: str,
    count: int,
    payload: tuple[str, int],
    parts: int,
    between: Callable[[], None],
    log: Path,
    rate: float = 0,
) -> int:
    """Fill a topic of Pulsar, and return the checksum of its payloads.

    Args:
        server: the service URL.
        topic: the topic.
        count: number of messages.
        payload: kind and bytes of each; see Payloads.java.
        parts: number of parts, each with a new producer.
        between: called after each part but the last.
        log: file of the program's standard error.
        rate: messages a second; 0 for no limit.
    """
    home = ensure_distribution(DEFAULT_VERSION)
    classes = compiled(f"pulsar-load-{DEFAULT_VERSION}", home / "lib", *_COMMON, JAVA / "PulsarLoad.java")
    words = ["java", "-cp", f"{classes}:{home}/lib/*", "PulsarLoad", server, topic]
    words += map(str, (count, *payload, parts, rate))
    checksum = 0
    with (
        log.open("wb") as errors,
        subprocess.Popen(  # noqa: S603
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as running,
    ):
        assert running.stdin is not None
        assert running.stdout is not None
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, running.kill)
        watchdog.start()
        try:
            for part in range(parts):
                # The program logs to standard output too.
                line = next((text for text in running.stdout if text.strip().isdecimal()), None)
                if line is None:
                    raise DevstackError(
                        f"filling {topic} failed in part {part + 1} of {parts}", "\n  ".join(_tail(log))
                    )
                checksum = int(line)
                if part + 1 < parts:
                    between()
                running.stdin.write("\n")
                running.stdin.flush()
        finally:
            watchdog.cancel()
    return checksum


class Kafka:
    """A Kafka of one node, broker and controller in one.

    Args:
        folder: folder of its data and log.
        port: its port; the next port is the controller's.
        memory: heap of its JVM.
    """

    def __init__(self, folder: Path, port: int, memory: str) -> None:
        self.server = f"127.0.0.1:{port}"
        jars = ensure_jars("kafka")
        file = folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
            "listeners": f"PLAINTEXT://{self.server},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": f"PLAINTEXT://{self.server}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "log.retention.hours": "-1",
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        java = ["java", f"-Xmx{memory}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars}/*"]
        made = subprocess.run(  # noqa: S603
            [*java, "kafka.tools.StorageTool", "format", "-t", uuid.uuid4().hex[:22], "-c", str(file)],
            capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False,
        )  # fmt: skip
        if made.returncode:
            raise DevstackError("Kafka's storage cannot be formatted", made.stderr[-1000:])
        self._log = folder / "kafka.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*java, "kafka.Kafka", str(file)], stdout=log, stderr=log)  # noqa: S603
        self.pid = self._process.pid
        self._wait(port)

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        self.close()
        raise DevstackError("Kafka does not come up", "\n  ".join(_tail(self._log)))

    def close(self) -> None:
        """End Kafka."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _tail(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
