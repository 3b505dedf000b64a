"""The servers of Oxia in a stack: storage servers, which hold the shards, and the coordinator, which elects their leaders."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final

from devstack.common.processes import Server
from devstack.errors import DevstackError
from devstack.oxia.program import ensure_program
from devstack.pulsar.spec import BOOKIES_NAMESPACE, LOOPBACK, OXIA_NAMESPACE
from devstack.pulsar.status import ALL_ON_LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devstack.pulsar.spec import PulsarSpec, Site
    from devstack.pulsar.state import StateFolder

_SHARDS: Final = 2
"""More than one, so that records are found only where their hash belongs."""

COORDINATOR: Final = "oxia-coordinator"
_DEADLINE_S: Final = 15.0


def oxia_plan(spec: PulsarSpec) -> list[tuple[str, int]]:
    """Return names and main ports of all servers, in the order of their start."""
    count = spec.metadata_servers
    servers = [(f"oxia-{index}", spec.oxia_port(index)) for index in range(count)]
    return [*servers, (COORDINATOR, spec.oxia_coordinator_ports[0])]


def oxia_server(
    spec: PulsarSpec,
    state: StateFolder,
    name: str,
    port: int,
    sites: Mapping[str, Site] = ALL_ON_LOOPBACK,
) -> Server:
    """Return one server.

    Args:
        spec: specification of the stack.
        state: its state folder.
        name: the server.
        port: its main port.
        sites: sites of servers by name; other servers run on loopback.
    """
    site = sites.get(name, LOOPBACK)
    program, data = str(ensure_program()), state.data(name)
    argv: tuple[str, ...]
    if name == COORDINATOR:
        internal, metrics = spec.oxia_coordinator_ports
        argv = (
            *(program, "coordinator", "--conf", str(state.conf(name)), "--metadata", "file"),
            *("--file-clusters-status-path", str(data / "status.json")),
            *("--internal-addr", f"{site.host}:{internal}", "--metrics-addr", f"{site.host}:{metrics}"),
        )
    else:
        index = int(name.removeprefix("oxia-"))
        argv = (
            *(program, "server", "--public-addr", f"{site.host}:{port}"),
            *("--internal-addr", f"{site.host}:{spec.oxia_internal_port(index)}", "--metrics-addr", ""),
            *("--data-dir", str(data / "db"), "--wal-dir", str(data / "wal")),
            f"--wal-sync-data={str(not spec.quick).lower()}",
        )
    return Server(
        name=name,
        port=port,
        argv=(*site.launcher, *argv),
        env={},
        record=state.record(name),
        log=state.log(name),
        host=site.host,
        config=_cluster_conf(spec, sites) if name == COORDINATOR else "",
    )


def run_client(address: str, namespace: str, *command: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command of Oxia's own client, such as `delete KEY`.

    Args:
        address: HOST:PORT of a server.
        namespace: namespace of the records.
        command: the command with its options.
        seconds: limit of the whole run.

    Raises:
        subprocess.TimeoutExpired: the command takes longer.
    """
    return subprocess.run(
        [str(ensure_program()), "client", "--service-address", address, "--namespace", namespace, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def forget_oxia_bookie(address: str, bookie_id: str) -> None:
    """Remove the registration of a dead bookie; see registration.py.

    Raises:
        DevstackError: Oxia does not answer.
    """
    for namespace in (OXIA_NAMESPACE, BOOKIES_NAMESPACE):
        ended = run_client(address, namespace, "delete", f"/ledgers/available/{bookie_id}", seconds=_DEADLINE_S)
        if ended.returncode != 0 and "not found" not in ended.stderr:
            raise DevstackError(f"Oxia at {address} does not forget bookie {bookie_id}: {ended.stderr.strip()[-300:]}")


def _cluster_conf(spec: PulsarSpec, sites: Mapping[str, Site]) -> str:
    """Return the coordinator's configuration. JSON is YAML, too."""
    count = spec.metadata_servers
    hosts = [sites.get(f"oxia-{index}", LOOPBACK).host for index in range(count)]
    return json.dumps(
        {
            "namespaces": [
                {"name": name, "initialShardCount": _SHARDS, "replicationFactor": count}
                for name in (OXIA_NAMESPACE, BOOKIES_NAMESPACE)
            ],
            "servers": [
                {
                    "public": f"{host}:{spec.oxia_port(index)}",
                    "internal": f"{host}:{spec.oxia_internal_port(index)}",
                }
                for index, host in enumerate(hosts)
            ],
        },
        indent=1,
    )
