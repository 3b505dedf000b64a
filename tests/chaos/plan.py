"""Which fault happens when, to which node: a random plan, the same again for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BROKERS: Final = 3
OWNERS: Final = 2
BOOKIES: Final = 3
CLIENTS: Final = 3
"""Nodes with client processes: the first publishes, the others consume."""

READ_ONLY: Final = tuple(f"ro-{i}" for i in range(BROKERS))
OWNING: Final = tuple(f"broker-{i}" for i in range(OWNERS))
STORING: Final = tuple(f"bookie-{i}" for i in range(BOOKIES))
CLIENT: Final = tuple(f"clients-{i}" for i in range(CLIENTS))
ZOOKEEPER: Final = "zookeeper"
NODES: Final = (*READ_ONLY, *OWNING, *STORING, ZOOKEEPER, *CLIENT)

CONSUMING: Final = CLIENT[1:]
CHAOS_GAP_S: Final = 3.3
"""On average, from the begin of one fault to that of the next."""

SOAK_GAP_S: Final = 60.0
QUIET_S: Final = 5.0
"""No fault begins in the first and the last seconds of a run."""

_RECOVERY_S: Final = {"ro": 5.0, "broker": 40.0, "bookie": 20.0, ZOOKEEPER: 20.0, "clients": 4.0}
"""So long after a process of this role is back, none of the role is disturbed again (of read-only brokers: the same one)."""


class Kind(StrEnum):
    """What can happen."""

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
        kind: what happens.
        node: to which node; empty for topics.
        peer: the other end of a link; packets from it to `node` are lost, with CUT and LOSSY also the other way.
        seconds: how long.
        number: chooses a topic, subscription or position.
    """

    at: float
    kind: Kind
    node: str = ""
    peer: str = ""
    seconds: float = 0.0
    number: int = 0

    @property
    def title(self) -> str:
        """Kind and role, as the table shows them."""
        if self.kind in LINK_FAULTS:
            first, second = sorted((role_name(self.node), role_name(self.peer)))
            return f"{self.kind}: {first}, {second}"
        return f"{self.kind}: {role_name(self.node)}" if self.node else str(self.kind)

    def __str__(self) -> str:
        place = " <- ".join(part for part in (self.node, self.peer) if part)
        return f"{self.at:.1f} s: {self.kind} {place or self.number} for {self.seconds:.1f} s"


def role(node: str) -> str:
    """`ro`, `broker`, `bookie`, `zookeeper`, `clients`."""
    return node.partition("-")[0]


def role_name(node: str) -> str:
    """The role of a node in words."""
    names = {"ro": "read-only broker", "broker": "owner", "bookie": "bookie", "clients": "client"}
    return names.get(role(node), "ZooKeeper")


@dataclass(frozen=True, slots=True)
class Choice:
    """One kind of fault in the lottery.

    Attributes:
        weight: how often, beside the others.
        kind: what.
        nodes: to whom; empty for topics.
        seconds: how long, from and to.
        long: how long now and then: longer than sessions and keep-alives wait. None for never.
    """

    weight: float
    kind: Kind
    nodes: tuple[str, ...] = ()
    seconds: tuple[float, float] = (0.0, 0.0)
    long: tuple[float, float] | None = None


LONG: Final = 0.12
"""Of the faults that can be long, one in so many is."""

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
    Choice(1, Kind.KILL, (ZOOKEEPER,), (0.5, 3)),
    Choice(2, Kind.STOP, (ZOOKEEPER,), (1, 5), (12, 16)),
    Choice(12, Kind.CUT, NODES, (1, 5), (14, 45)),
    Choice(9, Kind.CUT_ONE_WAY, NODES, (1, 5), (14, 45)),
    Choice(4, Kind.LOSSY, NODES, (2, 5)),
    Choice(5, Kind.SLOW, NODES, (2, 5)),
    Choice(7, Kind.UNLOAD),
    Choice(2, Kind.SPLIT),
    Choice(5, Kind.RESET),
    Choice(3, Kind.DELETE),
    Choice(4, Kind.LEAVE, CONSUMING, (0.1, 2)),
    Choice(4, Kind.DROP, CONSUMING, (0.1, 2)),
    Choice(4, Kind.STOP, CLIENT, (1, 5), (12, 35)),
    Choice(2, Kind.KILL, CLIENT, (0.2, 2)),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run.

    Attributes:
        seed: what it was made from.
        seconds: how long.
        faults: by time.
    """

    seed: int
    seconds: float
    faults: tuple[Fault, ...]


def make_plan(seed: int, seconds: float, gap: float = CHAOS_GAP_S) -> Plan:
    """Plan a run.

    Args:
        seed: makes the plan.
        seconds: how long it lasts.
        gap: seconds from one fault to the next, on average.
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
    """Whether two nodes ever talk to each other: a loss between two bookies would be no fault."""
    roles = {role(one), role(other)}
    if "clients" in roles:
        return roles in ({"clients", "ro"}, {"clients", "broker"})
    return roles not in ({"bookie"}, {"broker"})


def _slot(fault: Fault) -> str:
    """What may be disturbed by one process fault at a time: a role, but each read-only broker and client alone."""
    return fault.node if role(fault.node) in {"ro", "clients"} else role(fault.node)


def _possible(fault: Fault, free: dict[str, float]) -> bool:
    if fault.kind not in PROCESS_FAULTS:
        return True
    # What starts needs ZooKeeper, and ZooKeeper's own faults shall not meet servers that start.
    if role(fault.node) == ZOOKEEPER:
        return all(fault.at >= at for at in free.values())
    return fault.at >= max(free.get(_slot(fault), 0.0), free.get(ZOOKEEPER, 0.0))


def _occupy(fault: Fault, free: dict[str, float]) -> None:
    if fault.kind in PROCESS_FAULTS:
        recovery = 2.0 if fault.kind is Kind.STOP else _RECOVERY_S[role(fault.node)]
        free[_slot(fault)] = fault.at + fault.seconds + recovery
