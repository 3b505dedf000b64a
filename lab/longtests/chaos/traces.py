"""Resources that a run leaves behind at the read-only brokers, the owners, the bookies and the metadata store."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.cpu import resident_bytes
from devstack.pulsar.admin import AdminError
from devstack.pulsar.spec import ZOOKEEPER
from longtests.chaos.plan import OWNING, READ_ONLY, STORING
from longtests.chaos.stack import CLIENT_PORT
from longtests.chaos.store import ANSWER_S, pool_records
from longtests.chaos.workload import TOPICS

if TYPE_CHECKING:
    from longtests.chaos.net import Network
    from longtests.chaos.stack import ChaosStack

MEMORY_MB: Final = 90
"""Allowed growth of a broker above its memory before the first client: caches, and memory that the allocator keeps."""

BOOKIE_CONNECTIONS: Final = 4
"""Connections to each bookie: for single reads, backlogs, long polls, and reads at the tail."""

OWNER_CONNECTIONS: Final = 1
LOCAL_CONNECTIONS: Final = 2
"""The same with local cursors, whose partitions move to other brokers: also those of the client that stores them."""

FILES: Final = 24
"""Allowed growth: connections to bookies, owners and the other brokers."""

TASKS: Final = 12
WATCHES: Final = 1
"""Allowed growth per broker: the removal of a watch may be under way."""


@dataclass(slots=True)
class Traces:
    """Resources at one moment.

    Attributes:
        memory_mb: memory of each read-only broker, in MB.
        files: open file descriptors of each.
        tasks: tasks of each event loop.
        clients: consumers, producers, claims, topics and connections of each, without connections of its peers.
        to_owners: connections of each to owners.
        to_bookies: connections of each to bookies.
        orphans: connections of bookies or owners to a read-only broker that does not have them.
        watches: watches of the read-only brokers at ZooKeeper.
        sessions: their sessions there.
        records: records of pools in the metadata store, without those of the brokers.
        at_owners: consumers and producers that are left at owners.
    """

    memory_mb: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    clients: dict[str, int] = field(default_factory=dict)
    to_owners: dict[str, int] = field(default_factory=dict)
    to_bookies: dict[str, int] = field(default_factory=dict)
    orphans: list[str] = field(default_factory=list)
    watches: int = 0
    sessions: int = 0
    records: list[str] = field(default_factory=list)
    at_owners: list[str] = field(default_factory=list)


def look(stack: ChaosStack, network: Network) -> Traces:
    """Collect the resources once.

    Raises:
        OSError: a server does not answer.
    """
    found = Traces()
    own = {name: set(network.connections(name)) for name in (*READ_ONLY, *OWNING, *STORING)}
    for name in READ_ONLY:
        pid = stack.pid(name)
        if pid is None:
            raise OSError(f"{name} does not run")
        stats = stack.read_only[name].stats()
        found.memory_mb[name] = resident_bytes([pid]) >> 20
        found.files[name] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        found.tasks[name] = int(stats["tasks"])
        peers = {network.addresses[other] for other in READ_ONLY}
        accepted = sum(
            here.endswith(f":{CLIENT_PORT}") and there.rpartition(":")[0] in peers for here, there in own[name]
        )
        found.clients[name] = max(int(stats["connections"]) - accepted, 0)
        found.clients[name] += int(stats["consumers"]) + int(stats["producers"])
        # The claims of local cursors stay: one without a subscription for each partition.
        found.clients[name] += sum(bool(claim["subscription"]) for claim in stats["claims"]) + len(stats["topics"])
        for others, count in ((OWNING, found.to_owners), (STORING, found.to_bookies)):
            hosts = {network.addresses[other] for other in others}
            count[name] = sum(other.rpartition(":")[0] in hosts for _, other in own[name])
    for name in (*OWNING, *STORING):
        for here, there in own[name]:
            for broker in READ_ONLY:
                if there.rpartition(":")[0] == network.addresses[broker] and (there, here) not in own[broker]:
                    found.orphans.append(f"{name} {here} <- {broker} {there}")
    if stack.spec.metadata == ZOOKEEPER:  # Oxia does not tell its sessions and watches
        _look_at_zookeeper(stack, network, found)
    found.records = pool_records(stack.endpoints.metadata_store)
    for topic in TOPICS:
        _look_at_owner(stack, topic.full, found)
    return found


def _look_at_owner(stack: ChaosStack, topic: str, found: Traces) -> None:
    try:
        stats = stack.admin().stats(topic)
    except AdminError as error:
        if error.status == 404:
            return
        raise OSError(str(error)) from error
    found.at_owners += [f"{topic}: producer {one['producerName']}" for one in stats["publishers"]]
    for name, subscription in stats["subscriptions"].items():
        found.at_owners += [f"{topic}: {name}: {one.get('consumerName')}" for one in subscription["consumers"]]


def _look_at_zookeeper(stack: ChaosStack, network: Network, found: Traces) -> None:
    host, _, port = stack.endpoints.metadata_store.removeprefix("zk:").partition(":")
    brokers = {network.addresses[name] for name in READ_ONLY}
    sessions = set()
    for line in _four_letters(host, int(port), "cons").splitlines():
        match = re.match(r"\s*/([\d.]+):\d+\[.*?sid=(0x[0-9a-f]+)", line)
        if match and match[1] in brokers:
            sessions.add(match[2])
    found.sessions = len(sessions)
    session = ""
    for line in _four_letters(host, int(port), "wchc").splitlines():
        if not line.startswith(("\t", " ")):
            session = line.strip()
        elif session in sessions:
            found.watches += 1


def _four_letters(host: str, port: int, word: str) -> str:
    with socket.create_connection((host, port), timeout=ANSWER_S) as connection:
        connection.sendall(word.encode())
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def compare(before: Traces, after: Traces, *, local: bool = False) -> list[str]:
    """Return the resources that exceed those before the first client.

    Args:
        before: the resources before.
        after: those at the end.
        local: whether the pool keeps the cursors.
    """
    owner_connections = (LOCAL_CONNECTIONS if local else OWNER_CONNECTIONS) * len(OWNING)
    wrong = []
    for name in after.memory_mb:
        for what, was, now, more in (
            ("MB of memory", before.memory_mb[name], after.memory_mb[name], MEMORY_MB),
            ("open files", before.files[name], after.files[name], FILES),
            ("tasks", before.tasks[name], after.tasks[name], TASKS),
            ("clients, topics and claims", 0, after.clients[name], 0),
            ("connections to owners", before.to_owners[name], after.to_owners[name], owner_connections),
            (
                "connections to bookies",
                before.to_bookies[name],
                after.to_bookies[name],
                BOOKIE_CONNECTIONS * len(STORING),
            ),
        ):
            if now > was + more:
                wrong.append(f"{name} has {now} {what}, and had {was} at the start")
    if after.watches > before.watches + WATCHES * len(after.memory_mb):
        wrong.append(f"{after.watches} watches at ZooKeeper, and {before.watches} at the start")
    if after.sessions > len(after.memory_mb):
        wrong.append(f"{after.sessions} sessions of {len(after.memory_mb)} brokers at ZooKeeper")
    wrong += [f"record {path}" for path in after.records if path not in before.records]
    wrong += [f"at the owner: {text}" for text in after.at_owners]
    wrong += [f"orphan connection: {text}" for text in after.orphans]
    return wrong


def document(traces: Traces) -> dict[str, Any]:
    """Return the resources for the report."""
    return {name: getattr(traces, name) for name in Traces.__slots__}
