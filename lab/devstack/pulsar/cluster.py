"""The whole stack: starts its servers in the right order, reports their status, and stops them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.demo.class_archive import ClassArchives

from devstack.common import processes
from devstack.common.processes import Server
from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.pulsar import preflight
from devstack.pulsar.admin import AdminError, PulsarAdmin
from devstack.pulsar.config import bookie_conf, broker_conf, zookeeper_conf
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.java import java_environment
from devstack.pulsar.oxia_servers import forget_oxia_bookie, oxia_plan, oxia_server
from devstack.pulsar.registration import forget_bookie
from devstack.pulsar.spec import CLUSTER_NAME, LOOPBACK, OXIA, ZOOKEEPER, default_state
from devstack.pulsar.state import StateFolder
from devstack.pulsar.status import ALL_ON_LOOPBACK, Endpoints, ServerStatus, StackStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devstack.pulsar.spec import PulsarSpec, Site

_MEMORY: Final = {"zookeeper": 150 << 20, "oxia": 100 << 20, "bookie": 350 << 20, "broker": 600 << 20}
"""Resident bytes of a server under moderate load (measured at 9,000 messages of 1 KB per second, rounded up)."""

_JVM: Final = {
    "zookeeper": ("-Xms32m -Xmx128m", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
    "bookie": ("-Xms64m -Xmx256m -XX:MaxDirectMemorySize=256m", "-XX:+UseG1GC"),
    "broker": ("-Xms128m -Xmx512m -XX:MaxDirectMemorySize=256m", "-XX:+UseG1GC"),
}
_QUICK: Final = " -XX:TieredStopAtLevel=1"
_START_SECONDS: Final = 120.0
_INITIALISE_SECONDS: Final = 90.0
_STOP_SECONDS: Final = {"zookeeper": 10.0, "oxia": 10.0, "bookie": 15.0, "broker": 25.0}
_POLL_SECONDS: Final = 0.1


class PulsarCluster:
    """One stack, given by its spec and its state folder. The servers outlive this object.

    Args:
        spec: the specification.
        state: state folder; by default a folder in the cache with the name of the stack.
        sites: sites of servers by name (`zookeeper`, `oxia-0`, `bookie-0`, `broker-1`); other servers run on loopback.
    """

    def __init__(
        self, spec: PulsarSpec, state: Path | None = None, sites: Mapping[str, Site] = ALL_ON_LOOPBACK
    ) -> None:
        self.spec = spec
        self._sites = sites
        self.state = StateFolder((state or default_state(spec.folder_name)).absolute())

    @property
    def endpoints(self) -> Endpoints:
        """The endpoints of the servers."""
        return Endpoints.of(self.spec, self._sites)

    @property
    def metadata_server(self) -> str:
        """Name of the server, or of the first one, that has Pulsar's metadata."""
        return self.spec.metadata_server

    def site(self, server: str) -> Site:
        """Return the site of a server."""
        return self._sites.get(server, LOOPBACK)

    def admin(self, broker: int = 0) -> PulsarAdmin:
        """Return a client of one broker's admin API."""
        token = Path(self.spec.admin_token_file).read_text().strip() if self.spec.admin_token_file else ""
        return PulsarAdmin(self.endpoints.admin_urls[broker], token=token)

    # -- the whole stack ---------------------------------------------------------------------------------------------------

    def up(self, *, renew: bool = False) -> Endpoints:
        """Start missing servers, restart those with changed settings, and wait until all are healthy.

        Args:
            renew: whether to delete all data if no server runs. Otherwise brokers load all topics of earlier runs, and the
                snapshots of their transaction buffers may take 30 s (measured).

        Raises:
            DevstackError: the machine is not suitable, a port is in use, or a server does not start.
        """
        with self.state.locked():
            if renew and not any(server.pid for server in self.status().servers):
                self.state.clear()
            self.state.check(self.spec)
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
            self.state.store(self.spec)
            if missing:
                self._bring_up(home, servers)
            else:
                self._await(servers)
            self._await_brokers(servers, missing)
            return self.endpoints

    def down(self, *, purge: bool = False) -> None:
        """Stop all servers: brokers, then bookies, then the metadata store.

        A broker does not end on SIGTERM without its bookies, so bookies are stopped after it.

        Args:
            purge: whether to delete data, logs and configuration, too.
        """
        if not self.state.root.exists():
            return
        with self.state.locked():
            self._stop(self.state.records())
            if purge:
                self.state.purge()

    def status(self) -> StackStatus:
        """Return the current status of every server."""
        statuses: list[ServerStatus] = []
        for name, port in self._plan():
            live = processes.running(self.state.record(name))
            statuses.append(
                ServerStatus(
                    name=name,
                    pid=live.pid if live else None,
                    port=port,
                    answers=live is not None and processes.port_answers(port, host=self.site(name).host),
                    resident_mib=live.resident_bytes() >> 20 if live else 0,
                    log=str(self.state.log(name)),
                )
            )
        return StackStatus(
            name=self.spec.name,
            version=self.spec.version,
            state=str(self.state.root),
            healthy=all(server.answers for server in statuses),
            endpoints=self.endpoints,
            servers=tuple(statuses),
        )

    # -- one server at a time, for tests of failures -----------------------------------------------------------------------

    def stop_broker(self, index: int) -> None:
        """Stop a broker cleanly: it hands its topics over to the others."""
        self._stop([self.state.record(f"broker-{index}")])

    def kill_broker(self, index: int) -> None:
        """End a broker by SIGKILL; its ZooKeeper session lasts until its timeout (30 s)."""
        processes.stop([self.state.record(f"broker-{index}")], _STOP_SECONDS["broker"], signal.SIGKILL)

    def start_broker(self, index: int) -> None:
        """Start a broker that was stopped, and wait until it is healthy."""
        server = self._start_one(f"broker-{index}")
        self._await_brokers([server], [server])

    def stop_bookie(self, index: int) -> None:
        """Stop a bookie cleanly."""
        self._stop([self.state.record(f"bookie-{index}")])

    def kill_bookie(self, index: int) -> None:
        """End a bookie by SIGKILL; its journal has all entries that it acknowledged."""
        processes.stop([self.state.record(f"bookie-{index}")], _STOP_SECONDS["bookie"], signal.SIGKILL)

    def start_bookie(self, index: int) -> None:
        """Start a bookie that was stopped, and wait until it answers."""
        self._start_one(f"bookie-{index}")

    def start_metadata_server(self, name: str) -> None:
        """Start a server of the metadata store that was stopped, and wait until it answers."""
        self._start_one(name)

    # -- inside ------------------------------------------------------------------------------------------------------------

    def _plan(self) -> list[tuple[str, int]]:
        """Return names and main ports of all servers, in the order of their start."""
        spec = self.spec
        return [
            *((_zookeeper_name(index), spec.zookeeper_port + index) for index in range(spec.zookeepers)),
            *([] if spec.metadata == ZOOKEEPER else oxia_plan(spec)),
            *((f"bookie-{i}", spec.bookie_port(i)) for i in range(spec.bookies)),
            *((f"broker-{i}", spec.broker_port(i)) for i in range(spec.brokers)),
        ]

    def _servers(self, home: Path) -> list[Server]:
        return [self._server(home, name, port) for name, port in self._plan()]

    def _server(self, home: Path, name: str, port: int) -> Server:
        kind, _, number = name.partition("-")
        data = self.state.data(name)
        if kind == "oxia":
            return oxia_server(self.spec, self.state, name, port, self._sites)
        site, metadata = self.site(name), self.site(self.metadata_server).host
        if kind == "zookeeper":
            text, variable = zookeeper_conf(home, self.spec, data, site, int(number or 0)), "PULSAR_ZK_CONF"
        elif kind == "bookie":
            text, variable = bookie_conf(home, self.spec, int(number), data, site, metadata), "PULSAR_BOOKKEEPER_CONF"
        else:
            text, variable = broker_conf(home, self.spec, int(number), site, metadata), "PULSAR_BROKER_CONF"
        memory, flags = _JVM[kind]
        return Server(
            name=name,
            port=port,
            argv=(*site.launcher, str(home / "bin" / "pulsar"), kind),
            env={
                variable: str(self.state.conf(name)),
                **java_environment(self.spec.version),
                "PULSAR_LOG_DIR": str(self.state.log(name).parent),
                **_jvm_environment(memory, flags + (_QUICK if self.spec.quick else "")),
                **(self._class_archive(home, kind) if self.spec.quick else {}),
                **{setting.key: setting.value for setting in self.spec.settings if setting.role == f"{kind}-env"},
            },
            record=self.state.record(name),
            log=self.state.log(name),
            config=text,
            host=site.host,
        )

    def _class_archive(self, home: Path, role: str) -> dict[str, str]:
        """Return the variables that make a server start from an archive of its classes, where `pulsar fetch` has recorded one."""
        archives = ClassArchives.of(home)
        return archives.environment(role, self.state.root / "empty") if archives.recorded else {}

    def _start(self, server: Server) -> None:
        self.state.conf(server.name).write_text(server.config)
        self.state.data(server.name).mkdir(exist_ok=True)
        if _kind(server.name) == ZOOKEEPER:
            (self.state.data(server.name) / "myid").write_text(f"{server.port - self.spec.zookeeper_port + 1}\n")
        if server.name.startswith("bookie-"):
            bookie_id = f"{server.host}:{server.port}"
            if self.spec.metadata == OXIA:
                forget_oxia_bookie(f"{self.site(self.metadata_server).host}:{self.spec.oxia_port(0)}", bookie_id)
            else:
                forget_bookie(self.endpoints.metadata_store.removeprefix("zk:"), bookie_id)
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
        """Start in order: the metadata store, the cluster's metadata (once), then bookies and brokers together."""
        missing = [s for s in servers if s.running() is None]
        with step(f"starting {', '.join(s.name for s in missing)}"):
            metadata = [s for s in servers if _kind(s.name) in {ZOOKEEPER, OXIA}]
            for server in metadata:
                if server in missing:
                    self._start(server)
            self._await(metadata)
            fresh = self._initialise(home)
            rest = [s for s in missing if s not in metadata]
            bookie = servers[len(metadata)]
            if fresh and "autoRecoveryDaemonEnabled=true" in bookie.config:
                # With auto-recovery, bookies that start concurrently on an empty metadata store race for the same nodes.
                self._start(bookie)
                self._await([bookie])
                rest.remove(bookie)
            for server in rest:
                self._start(server)
            self._await(servers)

    def _initialise(self, home: Path) -> bool:
        """Write the cluster's metadata unless it exists; return whether it was written."""
        if self.state.initialised.exists():
            return False
        ends = self.endpoints
        command = [
            str(home / "bin" / "pulsar"),
            "initialize-cluster-metadata",
            *("--cluster", CLUSTER_NAME),
            *("--metadata-store", ends.metadata_store),
            *("--configuration-metadata-store", ends.metadata_store),
            *("--web-service-url", ends.admin_url),
            *("--broker-service-url", ends.writer_url),
        ]
        environment = self._class_archive(home, "initialize-cluster-metadata")
        if self.spec.apart:
            bookie = self._server(home, "bookie-0", self.spec.bookie_port(0))
            self.state.conf(bookie.name).write_text(bookie.config)
            environment["BOOKIE_CONF"] = str(self.state.conf(bookie.name))
            self._write_metadata([str(home / "bin" / "bookkeeper"), "shell", "initnewcluster"], environment)
            command += ["--bookkeeper-metadata-service-uri", f"metadata-store:{ends.bookkeeper_metadata_store}"]
        self._write_metadata(command, environment)
        self.state.initialised.touch()
        return True

    def _write_metadata(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        log = self.state.log("initialise")
        with step("writing the cluster's metadata"), log.open("w") as output:
            try:
                status = subprocess.run(
                    command,
                    env={
                        **os.environ,
                        **java_environment(self.spec.version),
                        **_jvm_environment("-Xms64m -Xmx128m", f"-XX:+UseSerialGC{_QUICK}"),
                        **environment,
                    },
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    timeout=_INITIALISE_SECONDS,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                status = None
        if status != 0:
            why = f"took more than {_INITIALISE_SECONDS:.0f} s" if status is None else f"exit status {status}"
            lines = "".join(f"\n    {line[:300]}" for line in log.read_text(errors="replace").splitlines()[-5:])
            raise DevstackError(f"the cluster's metadata cannot be written ({why}):{lines}", f"log: {log}")

    def _await(self, servers: Sequence[Server]) -> None:
        """Wait until the port of each server answers; raise DevstackError if a server ends."""
        deadline = time.monotonic() + _START_SECONDS
        waiting = list(servers)
        while waiting:
            for server in waiting:
                if server.running() is None:
                    raise server.died()
            waiting = [s for s in waiting if not s.answers()]
            if waiting and time.monotonic() > deadline:
                server = waiting[0]
                raise DevstackError(
                    f"{server.name} runs but does not answer on port {server.port} after {_START_SECONDS:.0f} s",
                    f"log: {server.log}",
                )
            if waiting:
                time.sleep(_POLL_SECONDS)

    def _await_brokers(self, servers: Sequence[Server], started: Sequence[Server]) -> None:
        """Wait until brokers are healthy: by a full check for those in `started`, and a cheap one for those that ran before."""
        brokers = [server for server in servers if server.name.startswith("broker-")]
        with ThreadPoolExecutor(len(brokers)) as pool:
            for outcome in [pool.submit(self._await_broker, server, full=server in started) for server in brokers]:
                outcome.result()

    def _await_broker(self, server: Server, *, full: bool) -> None:
        admin = self.admin(int(server.name.removeprefix("broker-")))
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                if full:
                    admin.health()
                else:
                    admin.ready()
            except AdminError as error:
                if server.running() is None:
                    raise server.died() from error
                if time.monotonic() > deadline:
                    raise DevstackError(
                        f"{server.name} runs but is not healthy: {error}", f"log: {server.log}"
                    ) from error
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _preflight(self, missing: Sequence[Server]) -> None:
        java_environment(self.spec.version)
        preflight.check_memory(sum(_MEMORY[_kind(s.name)] for s in missing))
        self.state.make()
        preflight.check_disk(self.state.root)
        ports: list[tuple[str, int]] = []
        for server in missing:
            if self.site(server.name).launcher:
                continue  # it runs in a network namespace of its own, whose address cannot be bound here
            ports.append((server.name, server.port))
            kind, _, number = server.name.partition("-")
            if kind == "broker":
                ports.append((f"{server.name}'s admin API", self.spec.broker_http_port(int(number))))
            elif kind == "bookie":
                ports.append((f"{server.name}'s metrics", self.spec.bookie_metrics_port(int(number))))
        sibling = self.state.running_sibling(self.spec)
        if sibling is None:
            preflight.check_ports(ports)
        else:
            preflight.check_ports(
                ports, f"stop the stack of another release or metadata store first: pulsar down --state {sibling}"
            )

    def _stop(self, records: Sequence[Path]) -> None:
        for kind in ("broker", "bookie", ZOOKEEPER, OXIA):
            of_kind = [record for record in records if _kind(record.stem) == kind]
            live = [record.stem for record in of_kind if processes.running(record)]
            if live:
                say(f"stopping {', '.join(live)}")
            processes.stop(of_kind, _STOP_SECONDS[kind])

    def _stop_strangers(self, servers: Sequence[Server]) -> None:
        """Stop servers of an earlier, larger spec."""
        known = {server.record for server in servers}
        self._stop([record for record in self.state.records() if record not in known])


def _zookeeper_name(index: int) -> str:
    """Return the name of a ZooKeeper; the only one of most stacks has no number."""
    return f"{ZOOKEEPER}-{index}" if index else ZOOKEEPER


def _kind(name: str) -> str:
    """Return the kind of a server, such as `bookie` of `bookie-0`."""
    return name.partition("-")[0]


def _jvm_environment(memory: str, flags: str) -> dict[str, str]:
    """Return heap and flags for Pulsar's scripts. The script of bookies prefers variables of its own.

    GC logs are off (any non-empty value replaces the scripts' default) to save disk, and glibc has few arenas to save memory.
    """
    flags = f"{flags} -XX:+PerfDisableSharedMem"
    quiet = "-Xlog:gc=off"
    return {
        "PULSAR_MEM": memory,
        "PULSAR_GC": flags,
        "PULSAR_GC_LOG": quiet,
        "BOOKIE_MEM": memory,
        "BOOKIE_GC": flags,
        "BOOKIE_GC_LOG": quiet,
        "MALLOC_ARENA_MAX": "2",
    }
