"""The faults, and their repair."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from longtests.faults.stack import SESSION_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from longtests.faults.stack import FaultyStack

BOOKIE_DOWN_S: Final = 5.0
ZOOKEEPER_DOWN_S: Final = 30.0
STALL_S: Final = 12.0
DAMAGED_EVERY: Final = 10
"""One in this many of the bookie's entries is damaged."""


class ScenarioError(Exception):
    """A fault could not be injected, so the run proves nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a fault.

    Attributes:
        stack: the cluster.
        bookie: a bookie of the ledger that is being written.
        owner: the broker that owns the topic.
        marker: first bytes of each message of the topic.
        end: set when the run is aborted; a scenario then repairs at once.
    """

    stack: FaultyStack
    bookie: int
    owner: int
    marker: bytes
    end: Event


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault.

    Attributes:
        name: for the command line.
        title: for the table.
        act: injects and repairs the fault; blocks meanwhile. Returns the number of damaged entries.
        damages: whether it damages entries, which a new reader must then encounter.
        quorum: ensemble size, write quorum and ack quorum of the topic's ledgers.
        fresh: whether the next run needs a new cluster.
    """

    name: str
    title: str
    act: Callable[[Target], int]
    damages: bool = False
    quorum: tuple[int, int, int] = (2, 2, 2)
    fresh: bool = False


def _kill_bookie(target: Target) -> int:
    target.stack.kill_bookie(target.bookie)
    target.end.wait(BOOKIE_DOWN_S)
    target.stack.start_bookie(target.bookie)
    return 0


def _kill_zookeeper(target: Target) -> int:
    target.stack.kill_zookeeper()
    target.end.wait(ZOOKEEPER_DOWN_S)
    target.stack.start_zookeeper()
    return 0


def _kill_owner(target: Target) -> int:
    target.stack.kill_broker(target.owner)
    target.end.wait(SESSION_TIMEOUT_S + BOOKIE_DOWN_S)
    target.stack.start_broker(target.owner)
    return 0


def _stall_bookie(target: Target) -> int:
    target.stack.stall_bookie(target.bookie)
    try:
        target.end.wait(STALL_S)
    finally:
        target.stack.resume_bookie(target.bookie)
    return 0


def _corrupt_entries(target: Target) -> int:
    """Damage entries of a stopped bookie: the stop flushes entries to its files, and the restart empties its memory."""
    target.stack.stop_bookie(target.bookie)
    try:
        damaged: set[int] = set()
        for path in target.stack.entry_files(target.bookie):
            data = path.read_bytes()
            changed = bytearray(data)
            for found in re.finditer(re.escape(target.marker) + rb" (\d{8}) ", data):
                number = int(found[1])
                if number % DAMAGED_EVERY == 0:
                    changed[found.start(1)] ^= 0xFF
                    damaged.add(number)
            if changed != data:
                path.write_bytes(changed)
        if not damaged:
            raise ScenarioError(f"bookie-{target.bookie} has no entry of the topic in its files")
        return len(damaged)
    finally:
        target.stack.start_bookie(target.bookie)


SCENARIOS: Final = (
    Scenario("bookie", f"kill -9 of one of three bookies, back after {BOOKIE_DOWN_S:g} s", _kill_bookie),
    # Two of three bookies confirm, so the writer continues while one stalls. The readers must continue too.
    Scenario("stall", f"one of three bookies stalls for {STALL_S:g} s (SIGSTOP)", _stall_bookie, quorum=(3, 3, 2)),
    Scenario("corrupt", "bytes of entries flipped in one bookie's files", _corrupt_entries, damages=True),
    Scenario("owner", f"kill -9 of the owner; its session lasts {SESSION_TIMEOUT_S} s more", _kill_owner),
    # Bookies of 4.0.8 may lose their registrations to each other for good when ZooKeeper comes back (measured).
    Scenario("zookeeper", f"kill -9 of ZooKeeper, back after {ZOOKEEPER_DOWN_S:g} s", _kill_zookeeper, fresh=True),
)


def wait_until(check: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition.

    Raises:
        ScenarioError: it does not become true in time.
    """
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise ScenarioError(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)
