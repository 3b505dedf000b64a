"""The runs that each program has for each subscription type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OWNER: Final = "owner"
POOL: Final = "pool"
UNLOAD: Final = "unload"
DRAIN: Final = "drain"
KILL: Final = "kill"
PARTITIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One run.

    Attributes:
        name: name in options and results.
        target: where the program connects to, OWNER or POOL.
        disturbance: what happens while messages are published: UNLOAD (of the topic, at the owner), DRAIN or KILL (of the
            pool's broker that serves the topic); empty for nothing.
        partitions: partitions of the topic; 0 for a topic without.
        admin_of_pool: whether the program's admin URL is the HTTP port of a pool's broker, instead of the source cluster's.
    """

    name: str
    target: str
    disturbance: str = ""
    partitions: int = 0
    admin_of_pool: bool = False


CASES: Final = (
    Case("owner", OWNER),
    Case("pool", POOL),
    Case("owner-partitions", OWNER, partitions=PARTITIONS),
    Case("pool-partitions", POOL, partitions=PARTITIONS),
    Case("owner-unload", OWNER, UNLOAD),
    Case("pool-unload", POOL, UNLOAD),
    Case("pool-drain", POOL, DRAIN),
    Case("pool-kill", POOL, KILL),
    Case("pool-admin", POOL, admin_of_pool=True),
)
BY_NAME: Final = {case.name: case for case in CASES}
COUNTERPARTS: Final = {
    "pool": "owner",
    "pool-partitions": "owner-partitions",
    "pool-unload": "owner-unload",
    "pool-drain": "owner-unload",
    "pool-kill": "owner-unload",
    "pool-admin": "owner",
}
"""The owner's run that a run through the pool is compared with."""
