"""The whole stack: brings its servers up in the right order, says how they are, takes them down."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.pulsar import preflight, process
from devstack.pulsar.admin import AdminError, PulsarAdmin
from devstack.pulsar.config import bookie_conf, broker_conf, zookeeper_conf
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.process import Server
from devstack.pulsar.spec import CLUSTER_NAME, HOST, PulsarSpec, Setting, default_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_MEMORY: Final = {"zookeeper": 200 << 20, "bookie": 450 << 20, "broker": 750 << 20}
"""Resident bytes that a server of a kind comes to under light load (measured, rounded up)."""

_JVM: Final = {
    "zookeeper": ("-Xms32m -Xmx128m", "-XX:+UseSerialGC"),
    "bookie": ("-Xms64m -Xmx256m -XX:MaxDirectMemorySize=256m", "-XX:+UseG1GC"),
    "broker": ("-Xms128m -Xmx512m -XX:MaxDirectMemorySize=256m", "-XX:+UseG1GC"),
}
_START_SECONDS: Final = 120.0
_INITIALISE_SECONDS: Final = 90.0
_LOCK_SECONDS: Final = 300.0
_STOP_SECONDS: Final = {"zookeeper": 10.0, "bookie": 15.0, "broker": 25.0}
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the stack's servers are.

    Attributes:
        metadata_store: as Pulsar writes it, `zk:HOST:PORT`.
        writer_url: the first broker, `pulsar://HOST:PORT`.
        admin_url: the first broker, `http://HOST:PORT`.
        brokers: all brokers' `pulsar://HOST:PORT`.
        admin_urls: all brokers' `http://HOST:PORT`.
        bookies: all bookies' HOST:PORT, which are their ids too.
        bookie_metrics: where each bookie shows its Prometheus metrics.
    """

    metadata_store: str
    writer_url: str
    admin_url: str
    brokers: tuple[str, ...]
    admin_urls: tuple[str, ...]
    bookies: tuple[str, ...]
    bookie_metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How one server is.

    Attributes:
        name: `zookeeper`, `bookie-0`, `broker-1`.
        pid: its process id, None when it is not running.
        port: its main port.
        answers: whether that port accepts connections.
        resident_mib: resident memory in MiB.
        log: where its output goes.
    """

    name: str
    pid: int | None
    port: int
    answers: bool
    resident_mib: int
    log: str


@dataclass(frozen=True, slots=True)
class StackStatus:
    """How the whole stack is; `healthy` when every server runs and answers."""

    name: str
    version: str
    state: str
    healthy: bool
    endpoints: Endpoints
    servers: tuple[ServerStatus, ...]


class PulsarCluster:
    """One stack, by its spec and its state folder; the servers live on without this object.

    Args:
        spec: what the stack is made of.
        state: its folder; by default one in the cache, named after the stack.
    """

    def __init__(self, spec: PulsarSpec, state: Path | None = None) -> None:
        self.spec = spec
        self.state = (state or default_state(spec.name)).absolute()

    @property
    def endpoints(self) -> Endpoints:
        """Where the servers are, or will be."""
        spec = self.spec
        brokers = tuple(f"pulsar://{HOST}:{spec.broker_port(i)}" for i in range(spec.brokers))
        admin_urls = tuple(f"http://{HOST}:{spec.broker_http_port(i)}" for i in range(spec.brokers))
        return Endpoints(
            metadata_store=f"zk:{HOST}:{spec.zookeeper_port}",
            writer_url=brokers[0],
            admin_url=admin_urls[0],
            brokers=brokers,
            admin_urls=admin_urls,
            bookies=tuple(f"{HOST}:{spec.bookie_port(i)}" for i in range(spec.bookies)),
            bookie_metrics=tuple(f"http://{HOST}:{spec.bookie_metrics_port(i)}/metrics" for i in range(spec.bookies)),
        )

    def admin(self, broker: int = 0) -> PulsarAdmin:
        """The admin API of one broker."""
        return PulsarAdmin(self.endpoints.admin_urls[broker])

    # -- the whole stack ---------------------------------------------------------------------------------------------------

    def up(self) -> Endpoints:
        """Start what does not run, restart what runs with other settings, and wait until all of it is healthy.

        Raises:
            DevstackError: the machine lacks something, a port is taken, or a server does not come up.
        """
        with self._locked():
            self._check_stored()
            home = ensure_distribution(self.spec.version)
            servers = self._servers(home)
            self._stop_strangers(servers)
            stale = [s for s in servers if (r := s.running()) and r.fingerprint != s.fingerprint]
            if stale:
                say(f"settings changed: restarting {', '.join(s.name for s in stale)}")
                self._stop([s.record for s in stale])
            missing = [s for s in servers if s.running() is None]
            if missing:
                self._preflight(missing)
                self._store()
                self._bring_up(home, servers)
            self._await(servers)
            for server in missing:
                if server.name.startswith("broker-"):
                    self._await_healthy(server)
            return self.endpoints

    def down(self, *, purge: bool = False) -> None:
        """Stop everything: brokers, then bookies, then ZooKeeper.

        A broker that is told to stop while its bookies are gone does not stop by itself: bookies go after it.

        Args:
            purge: whether to delete data, logs and configuration too.
        """
        if not self.state.exists():
            return
        with self._locked():
            self._stop(sorted(self._run_folder.glob("*.pid")))
            if purge:
                for folder in ("conf", "data", "logs", "run"):
                    shutil.rmtree(self.state / folder, ignore_errors=True)
                (self.state / "spec.json").unlink(missing_ok=True)
        if purge:
            (self.state / ".lock").unlink(missing_ok=True)
            if not any(self.state.iterdir()):
                self.state.rmdir()

    def status(self) -> StackStatus:
        """How every server is, right now."""
        told: list[ServerStatus] = []
        for name, port in self._plan():
            live = process.running(self._record(name))
            told.append(
                ServerStatus(
                    name=name,
                    pid=live.pid if live else None,
                    port=port,
                    answers=live is not None and process.port_answers(port),
                    resident_mib=live.resident_bytes() >> 20 if live else 0,
                    log=str(self._log(name)),
                )
            )
        return StackStatus(
            name=self.spec.name,
            version=self.spec.version,
            state=str(self.state),
            healthy=all(server.answers for server in told),
            endpoints=self.endpoints,
            servers=tuple(told),
        )

    # -- one server at a time, for tests of failures -----------------------------------------------------------------------

    def stop_broker(self, index: int) -> None:
        """Stop a broker in good order: it gives its topics to the others."""
        self._stop([self._record(f"broker-{index}")])

    def kill_broker(self, index: int) -> None:
        """End a broker by SIGKILL; ZooKeeper believes in it until its session times out (30 s)."""
        process.stop([self._record(f"broker-{index}")], _STOP_SECONDS["broker"], signal.SIGKILL)

    def start_broker(self, index: int) -> None:
        """Start a broker that was stopped, and wait until it is healthy."""
        self._await_healthy(self._start_one(f"broker-{index}"))

    def stop_bookie(self, index: int) -> None:
        """Stop a bookie in good order."""
        self._stop([self._record(f"bookie-{index}")])

    def kill_bookie(self, index: int) -> None:
        """End a bookie by SIGKILL; what it acknowledged is in its journal."""
        process.stop([self._record(f"bookie-{index}")], _STOP_SECONDS["bookie"], signal.SIGKILL)

    def start_bookie(self, index: int) -> None:
        """Start a bookie that was stopped, and wait until it answers."""
        self._start_one(f"bookie-{index}")

    # -- inside ------------------------------------------------------------------------------------------------------------

    @property
    def _run_folder(self) -> Path:
        return self.state / "run"

    def _record(self, name: str) -> Path:
        return self._run_folder / f"{name}.pid"

    def _log(self, name: str) -> Path:
        return self.state / "logs" / f"{name}.log"

    def _plan(self) -> list[tuple[str, int]]:
        """Names and main ports of all servers, in the order of their start."""
        spec = self.spec
        return [
            ("zookeeper", spec.zookeeper_port),
            *((f"bookie-{i}", spec.bookie_port(i)) for i in range(spec.bookies)),
            *((f"broker-{i}", spec.broker_port(i)) for i in range(spec.brokers)),
        ]

    def _servers(self, home: Path) -> list[Server]:
        return [self._server(home, name, port) for name, port in self._plan()]

    def _server(self, home: Path, name: str, port: int) -> Server:
        kind, _, number = name.partition("-")
        data = self.state / "data" / name
        if kind == "zookeeper":
            text, variable = zookeeper_conf(home, self.spec, data), "PULSAR_ZK_CONF"
        elif kind == "bookie":
            text, variable = bookie_conf(home, self.spec, int(number), data), "PULSAR_BOOKKEEPER_CONF"
        else:
            text, variable = broker_conf(home, self.spec, int(number)), "PULSAR_BROKER_CONF"
        memory, collector = _JVM[kind]
        return Server(
            name=name,
            port=port,
            argv=(str(home / "bin" / "pulsar"), kind),
            env={
                variable: str(self.state / "conf" / f"{name}.conf"),
                "PULSAR_LOG_DIR": str(self.state / "logs"),
                **_jvm_environment(memory, collector),
            },
            record=self._record(name),
            log=self._log(name),
            config=text,
        )

    def _start(self, server: Server) -> None:
        conf = self.state / "conf" / f"{server.name}.conf"
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text(server.config)
        (self.state / "data" / server.name).mkdir(parents=True, exist_ok=True)
        server.start()

    def _start_one(self, name: str) -> Server:
        home = ensure_distribution(self.spec.version)
        server = next((s for s in self._servers(home) if s.name == name), None)
        if server is None:
            raise DevstackError(f"stack {self.spec.name} has no {name}")
        if server.running() is None:
            self._preflight([server])
            self._start(server)
        self._await([server])
        return server

    def _bring_up(self, home: Path, servers: Sequence[Server]) -> None:
        """Start in order: ZooKeeper, the cluster's metadata (once), then bookies and brokers together."""
        missing = [s for s in servers if s.running() is None]
        with step(f"starting {', '.join(s.name for s in missing)}"):
            zookeeper = servers[0]
            if zookeeper in missing:
                self._start(zookeeper)
            self._await([zookeeper])
            fresh = self._initialise(home)
            rest = [s for s in missing if s is not zookeeper]
            if fresh:
                # What the first bookie writes into an empty metadata store, several at once may fight for.
                first = [s for s in rest if s.name == "bookie-0"]
                for server in first:
                    self._start(server)
                if "autoRecoveryDaemonEnabled=true" in servers[1].config:
                    self._await(first)
                rest = [s for s in rest if s not in first]
            for server in rest:
                self._start(server)
            self._await(servers)

    def _initialise(self, home: Path) -> bool:
        """Write the cluster's metadata unless it is there; says whether it was written now."""
        marker = self.state / "data" / "initialised"
        if marker.exists():
            return False
        log = self.state / "logs" / "initialise.log"
        ends = self.endpoints
        with step("writing the cluster's metadata"), log.open("w") as output:
            done = subprocess.run(
                [
                    str(home / "bin" / "pulsar"),
                    "initialize-cluster-metadata",
                    "--cluster",
                    CLUSTER_NAME,
                    "--metadata-store",
                    ends.metadata_store,
                    "--configuration-metadata-store",
                    ends.metadata_store,
                    "--web-service-url",
                    ends.admin_url,
                    "--broker-service-url",
                    ends.writer_url,
                ],
                env={**os.environ, **_jvm_environment("-Xms64m -Xmx128m", "-XX:+UseSerialGC")},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=_INITIALISE_SECONDS,
                check=False,
            )
        if done.returncode != 0:
            lines = log.read_text(errors="replace").splitlines()[-5:]
            raise DevstackError("the cluster's metadata cannot be written:\n    " + "\n    ".join(lines), f"log: {log}")
        marker.touch()
        return True

    def _await(self, servers: Sequence[Server]) -> None:
        """Wait until each server's port answers; one that ended is an error at once."""
        deadline = time.monotonic() + _START_SECONDS
        waiting = list(servers)
        while waiting:
            ready = [s for s in waiting if s.answers()]
            waiting = [s for s in waiting if s not in ready]
            for server in waiting:
                if server.running() is None:
                    raise server.died()
            if waiting and time.monotonic() > deadline:
                server = waiting[0]
                raise DevstackError(
                    f"{server.name} runs but does not answer on port {server.port} after {_START_SECONDS:.0f} s",
                    f"log: {server.log}",
                )
            if waiting:
                time.sleep(_POLL_SECONDS)

    def _await_healthy(self, server: Server) -> None:
        index = int(server.name.removeprefix("broker-"))
        try:
            self.admin(index).wait_healthy(_START_SECONDS)
        except AdminError as error:
            raise DevstackError(f"{server.name} runs but is not healthy: {error}", f"log: {server.log}") from error

    def _preflight(self, missing: Sequence[Server]) -> None:
        preflight.check_java()
        preflight.check_memory(sum(_MEMORY[s.name.partition("-")[0]] for s in missing))
        self.state.mkdir(parents=True, exist_ok=True)
        preflight.check_disk(self.state)
        ports: list[tuple[str, int]] = []
        for server in missing:
            ports.append((server.name, server.port))
            kind, _, number = server.name.partition("-")
            if kind == "broker":
                ports.append((f"{server.name}'s admin API", self.spec.broker_http_port(int(number))))
            elif kind == "bookie":
                ports.append((f"{server.name}'s metrics", self.spec.bookie_metrics_port(int(number))))
        preflight.check_ports(ports)

    def _stop(self, records: Sequence[Path]) -> None:
        for kind in ("broker", "bookie", "zookeeper"):
            of_kind = [record for record in records if record.stem.partition("-")[0] == kind]
            live = [record.stem for record in of_kind if process.running(record)]
            if live:
                say(f"stopping {', '.join(live)}")
            process.stop(of_kind, _STOP_SECONDS[kind])

    def _stop_strangers(self, servers: Sequence[Server]) -> None:
        """Stop servers of an earlier, larger spec."""
        known = {server.record for server in servers}
        self._stop([record for record in sorted(self._run_folder.glob("*.pid")) if record not in known])

    def _store(self) -> None:
        partial = self.state / "spec.json.new"
        partial.write_text(json.dumps(dataclasses.asdict(self.spec), indent=1))
        partial.replace(self.state / "spec.json")

    def _check_stored(self) -> None:
        """Raise when the data in the state folder cannot serve this spec."""
        stored = stored_spec(self.state)
        if stored is None:
            return
        for option, was, now in (
            ("--name", stored.name, self.spec.name),
            ("--version", stored.version, self.spec.version),
            ("--base-port", stored.base_port, self.spec.base_port),
        ):
            if was != now:
                raise DevstackError(
                    f"{option} {now}: the stack in {self.state} was made with {was}",
                    f"leave {option} out, or forget its data first: pulsar down --name {stored.name} --purge",
                )
        if self.spec.bookies < stored.bookies:
            raise DevstackError(
                f"--bookies {self.spec.bookies}: the stack in {self.state} has {stored.bookies}, which hold its data",
                f"give at least {stored.bookies}, or forget its data first: pulsar down --name {stored.name} --purge",
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One command at a time changes a stack."""
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / ".lock").open("w") as file:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise DevstackError(f"another command holds {self.state}/.lock", "wait until it ends") from None
                    time.sleep(_POLL_SECONDS)
            yield


def stored_spec(state: Path) -> PulsarSpec | None:
    """The spec that a state folder was made with; None when it holds no stack.

    Raises:
        DevstackError: the folder's spec.json is damaged.
    """
    try:
        text = (state / "spec.json").read_text()
    except FileNotFoundError:
        return None
    try:
        told: dict[str, Any] = json.loads(text)
        told["settings"] = tuple(Setting(**setting) for setting in told["settings"])
        return PulsarSpec(**told)
    except (ValueError, TypeError, KeyError) as error:
        raise DevstackError(f"{state}/spec.json is damaged: {error}", "delete the folder") from error


def _jvm_environment(memory: str, collector: str) -> dict[str, str]:
    """Heap and collector for Pulsar's scripts; the bookie's are set apart because its script prefers them.

    GC logs are off (any non-empty value replaces the scripts' default), and glibc keeps few arenas: both cost memory and disk.
    """
    quiet = "-Xlog:gc=off"
    collector = f"{collector} -XX:+PerfDisableSharedMem"
    return {
        "PULSAR_MEM": memory,
        "PULSAR_GC": collector,
        "PULSAR_GC_LOG": quiet,
        "BOOKIE_MEM": memory,
        "BOOKIE_GC": collector,
        "BOOKIE_GC_LOG": quiet,
        "MALLOC_ARENA_MAX": "2",
    }
