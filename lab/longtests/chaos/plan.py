"""Random plan of faults with times and nodes, reproducible by the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from devstack.pulsar.spec import DEFAULT_METADATA, OXIA

BROKERS: Final = 3
OWNERS: Final = 2
BOOKIES: Final = 3
CLIENTS: Final = 3
"""Nodes with client processes: the first publishes, the others consume."""

READ_ONLY: Final = tuple(f"ro-{i}" for i in range(BROKERS))
OWNING: Final = tuple(f"broker-{i}" for i in range(OWNERS))
STORING: Final = tuple(f"bookie-{i}" for i in range(BOOKIES))
CLIENT: Final = tuple(f"clients-{i}" for i in range(CLIENTS))
METADATA: Final = "metadata"
"""Node of the metadata store: of ZooKeeper, or of Oxia's server and its coordinator."""

STORE: Final = "Oxia" if DEFAULT_METADATA == OXIA else "ZooKeeper"
NODES: Final = (*READ_ONLY, *OWNING, *STORING, METADATA, *CLIENT)

CONSUMING: Final = CLIENT[1:]
CHAOS_GAP_S: Final = 3.3
"""Average time between the starts of two faults, in seconds."""

SOAK_GAP_S: Final = 60.0
QUIET_S: Final = 5.0
"""Time without new faults at the start and the end of a run, in seconds."""

_RECOVERY_S: Final = {"ro": 5.0, "broker": 40.0, "bookie": 20.0, METADATA: 20.0, "clients": 4.0}
"""Pause after the return of a process before the next fault of its role (of read-only brokers: of the same one), in seconds."""


class Kind(StrEnum):
    """Kind of a fault."""

    KILL = "kill -9"
    STOP = "SIGSTOP"
    TERMINATE = "SIGTERM"
    CUT = "silent packet loss"
    CUT_ONE_WAY = "silent packet loss, one way"
    LOSSY = "30 % packet loss"
    SLOW = "slow link"
    DISK_FULL = "full disk"
    UNLOAD = "unload of a topic"
    SPLIT = "split of a bundle"
    RESET = "reset of a cursor"
    POLICY = "policy for a while"
    KEEPER = "other keeper of cursors for a while"
    DELETE = "deletion of a topic"
    LEAVE = "consumers close and come back"
    DROP = "consumers vanish and come back"


PROCESS_FAULTS: Final = frozenset({Kind.KILL, Kind.STOP, Kind.TERMINATE, Kind.DISK_FULL})
LINK_FAULTS: Final = frozenset({Kind.CUT, Kind.CUT_ONE_WAY, Kind.LOSSY})


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: seconds after the start.
        kind: its kind.
        node: the affected node; empty for topics.
        peer: the other end of a link; packets from it to `node` are lost, with CUT and LOSSY also in the other direction.
        seconds: duration.
        number: selects a topic, subscription or position.
    """

    at: float
    kind: Kind
    node: str = ""
    peer: str = ""
    seconds: float = 0.0
    number: int = 0

    @property
    def title(self) -> str:
        """Kind and role, for the table."""
        if self.kind in LINK_FAULTS:
            first, second = sorted((role_name(self.node), role_name(self.peer)))
            return f"{self.kind}: {first}, {second}"
        return f"{self.kind}: {role_name(self.node)}" if self.node else str(self.kind)

    def __str__(self) -> str:
        place = " <- ".join(part for part in (self.node, self.peer) if part)
        return f"{self.at:.1f} s: {self.kind} {place or self.number} for {self.seconds:.1f} s"


def role(node: str) -> str:
    """Return the role of a node: `ro`, `broker`, `bookie`, `metadata` or `clients`."""
    return node.partition("-")[0]


def role_name(node: str) -> str:
    """Return the role of a node in words."""
    names = {"ro": "read-only broker", "broker": "owner", "bookie": "bookie", "clients": "client"}
    return names.get(role(node), STORE)


@dataclass(frozen=True, slots=True)
class Choice:
    """One kind of fault in the lottery.

    Attributes:
        weight: relative frequency.
        kind: the kind.
        nodes: candidates; empty for topics.
        seconds: minimum and maximum duration.
        long: the same for some faults: longer than sessions and keep-alives. None for never.
    """

    weight: float
    kind: Kind
    nodes: tuple[str, ...] = ()
    seconds: tuple[float, float] = (0.0, 0.0)
    long: tuple[float, float] | None = None


LONG: Final = 0.12
"""Share of long faults among those that can be long."""

MENU: Final = (
    Choice(7, Kind.KILL, READ_ONLY, (0.2, 3)),
    Choice(6, Kind.STOP, READ_ONLY, (1, 5), (12, 20)),
    Choice(3, Kind.TERMINATE, READ_ONLY, (0.2, 2)),
    Choice(1.5, Kind.KILL, OWNING, (0.5, 4)),
    Choice(3, Kind.STOP, OWNING, (1, 5), (12, 18)),
    Choice(1, Kind.TERMINATE, OWNING, (0.5, 2)),
    Choice(2, Kind.KILL, STORING, (0.5, 4)),
    Choice(3, Kind.STOP, STORING, (1, 5), (8, 15)),
    Choice(1, Kind.TERMINATE, STORING, (0.5, 3)),
    Choice(2, Kind.DISK_FULL, STORING, (3, 6)),
    Choice(1, Kind.KILL, (METADATA,), (0.5, 3)),
    Choice(2, Kind.STOP, (METADATA,), (1, 5), (12, 16)),
    Choice(12, Kind.CUT, NODES, (1, 5), (14, 45)),
    Choice(9, Kind.CUT_ONE_WAY, NODES, (1, 5), (14, 45)),
    Choice(4, Kind.LOSSY, NODES, (2, 5)),
    Choice(5, Kind.SLOW, NODES, (2, 5)),
    Choice(7, Kind.UNLOAD),
    Choice(2, Kind.SPLIT),
    Choice(5, Kind.RESET),
    Choice(6, Kind.POLICY, (), (5, 25)),
    Choice(3, Kind.KEEPER, (), (2, 12)),
    Choice(3, Kind.DELETE),
    Choice(4, Kind.LEAVE, CONSUMING, (0.1, 2)),
    Choice(4, Kind.DROP, CONSUMING, (0.1, 2)),
    Choice(4, Kind.STOP, CLIENT, (1, 5), (12, 35)),
    Choice(2, Kind.KILL, CLIENT, (0.2, 2)),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run.

    Attributes:
        seed: its seed.
        seconds: duration.
        faults: ordered by time.
    """

    seed: int
    seconds: float
    faults: tuple[Fault, ...]


def make_plan(seed: int, seconds: float, gap: float = CHAOS_GAP_S) -> Plan:
    """Plan a run.

    Args:
        seed: determines the plan.
        seconds: duration.
        gap: average seconds between two faults.
    """
    rng = random.Random(f"chaos {seed}")
    weights = [choice.weight for choice in MENU]
    free: dict[str, float] = {}
    faults: list[Fault] = []
    now = QUIET_S + rng.random() * gap
    while now < seconds - QUIET_S:
        fault = _draw(rng, rng.choices(MENU, weights)[0], now, seconds)
        if _possible(fault, free):
            _occupy(fault, free)
            faults.append(fault)
            now += rng.uniform(0.5, 1.5) * gap
    return Plan(seed, seconds, tuple(faults))


def _draw(rng: random.Random, choice: Choice, now: float, end: float) -> Fault:
    least, most = choice.long if choice.long is not None and rng.random() < LONG else choice.seconds
    seconds = min(rng.uniform(least, most), max(end - now, 0.1))
    node = rng.choice(choice.nodes) if choice.nodes else ""
    peer = ""
    if choice.kind in LINK_FAULTS:
        peer = rng.choice([other for other in NODES if other != node and connected(node, other)])
    return Fault(round(now, 2), choice.kind, node, peer, round(seconds, 2), rng.randrange(1 << 16))


def connected(one: str, other: str) -> bool:
    """Return whether two nodes ever exchange packets: a loss between two bookies would be no fault."""
    roles = {role(one), role(other)}
    if "clients" in roles:
        return roles in ({"clients", "ro"}, {"clients", "broker"})
    return roles not in ({"bookie"}, {"broker"})


def _slot(fault: Fault) -> str:
    """Return the unit for one process fault at a time: a role, but each read-only broker and client alone."""
    return fault.node if role(fault.node) in {"ro", "clients"} else role(fault.node)


def _possible(fault: Fault, free: dict[str, float]) -> bool:
    if fault.kind not in PROCESS_FAULTS:
        return True
    # A server needs the metadata store at its start, so the store's own faults must not coincide with it.
    if role(fault.node) == METADATA:
        return all(fault.at >= at for at in free.values())
    return fault.at >= max(free.get(_slot(fault), 0.0), free.get(METADATA, 0.0))


def _occupy(fault: Fault, free: dict[str, float]) -> None:
    if fault.kind in PROCESS_FAULTS:
        recovery = 2.0 if fault.kind is Kind.STOP else _RECOVERY_S[role(fault.node)]
        free[_slot(fault)] = fault.at + fault.seconds + recovery
