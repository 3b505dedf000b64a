"""A run: every scenario with every client, at the owner and through the pool, with the results."""

from __future__ import annotations

import queue
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from devstack.console import say
from devstack.errors import DevstackError
from devstack.pulsar.admin import AdminError
from longtests.compat.cells import Cell, Matrix, Notes, Verdict
from longtests.compat.differences import quirk, reason
from longtests.compat.process import Driver, DriverError, OperationError, UnsupportedError
from longtests.compat.session import OWNER, CheckError, Session
from longtests.compat.stack import OwnerTarget, PoolTarget

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from devstack.pulsar.cluster import PulsarCluster
    from longtests.compat.registry import Scenario
    from longtests.compat.session import Environment, Target

_SAY_EVERY_S: Final = 20.0
_BREAKABLE_POOLS: Final = 2


_UNEQUAL: Final = frozenset({Verdict.DIFFERENT, Verdict.BROKEN})


@dataclass(frozen=True, slots=True)
class Named:
    """A client of the run.

    Attributes:
        name: `python-3.13.0`.
        command: command line of its driver.
    """

    name: str
    command: tuple[str, ...]


def observe(scenario: Scenario, driver: Driver, target: Target, place: Environment) -> tuple[Any, bool]:
    """Run a scenario once.

    Returns:
        The observation and True, or the failure and False.

    Raises:
        UnsupportedError: the client lacks an operation or option.
        DriverError: the driver failed.
    """
    session = Session(driver, target, place)
    try:
        return scenario.run(session), True
    except UnsupportedError:
        raise
    except (CheckError, OperationError, AdminError, DevstackError, OSError) as error:  # OSError: no answer of a broker
        return f"{error}", False
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
    ) as error:  # an answer of an unexpected shape
        return f"{type(error).__name__}: {error}", False
    finally:
        session.close()


def compare(scenario: Scenario, driver: Driver, targets: Sequence[Target], place: Environment, known: str = "") -> Cell:
    """Run a scenario at the owner and through the pool.

    Args:
        scenario: the row.
        driver: the column.
        targets: owner and pool, in this order.
        place: the environment of all scenarios.
        known: why it fails with this client at any server; empty if it should not.
    """
    begin = time.monotonic()
    seen: list[Any] = []
    right = True
    try:
        for target in targets:
            observation, passed = observe(scenario, driver, target, place)
            right &= passed
            if target.name == OWNER and not passed and not known:
                return Cell(Verdict.BROKEN, f"at the owner: {observation}", time.monotonic() - begin)
            seen.append(observation)
    except UnsupportedError as error:
        return Cell(Verdict.NOT_OFFERED, str(error), time.monotonic() - begin)
    except DriverError as error:
        verdict = Verdict.QUIRK if known and target.name == OWNER else Verdict.BROKEN
        return Cell(verdict, f"driver, at the {target.name}: {error}", time.monotonic() - begin)
    seconds = time.monotonic() - begin
    if known and not right and _check(seen[0]) == _check(seen[1]):
        return Cell(Verdict.QUIRK, str(seen[0]), seconds)
    if seen[0] == seen[1]:
        return Cell(Verdict.EQUAL, "", seconds)
    return Cell(Verdict.DIFFERENT, f"owner {_short(seen[0])}; pool {_short(seen[1])}", seconds)


class Run:
    """A run on one stack.

    Args:
        stack: the healthy source cluster.
        place: its namespaces and keys.
        folder: folder of the logs.
        workers: number of concurrent scenarios.
        resume: whether to keep the results of an earlier run in the folder.
        cursors: keeper of the pool's cursors, `owner` or `local`.
        split: whether both brokers serve each subscription.
    """

    def __init__(
        self,
        stack: PulsarCluster,
        place: Environment,
        folder: Path,
        workers: int,
        *,
        resume: bool = False,
        cursors: str = "owner",
        split: bool = False,
    ) -> None:
        self._cursors = cursors
        self._split = split
        self._stack = stack
        self._place = place
        self._folder = folder
        self._workers = workers
        self._notes = Notes(folder / "cells.jsonl", resume=resume)
        self._lock = threading.Lock()
        self._pools = 0
        self._said = 0.0

    def run(self, scenarios: Sequence[Scenario], clients: Sequence[Named]) -> Matrix:
        """Fill the matrix; retry cells that are not as expected once, without concurrent scenarios."""
        begin = time.monotonic()
        names = [client.name for client in clients]
        matrix = Matrix(scenarios, names, self._notes.cells(), cursors=self._cursors)
        resumed = bool(matrix.cells)
        jobs = [(scenario, client.name) for scenario in scenarios for client in clients]
        with ExitStack() as open_:
            commands = {client.name: client.command for client in clients}
            drivers: dict[str, Driver] = {}

            def driver_of(client: str) -> Driver:
                with self._lock:
                    if client not in drivers or drivers[client].ended:
                        drivers[client] = Driver(commands[client], self._folder / f"{client}.log")
                        open_.callback(drivers[client].close)
                    return drivers[client]

            pool = self._new_pool(open_)
            breakable: queue.Queue[PoolTarget] = queue.Queue()
            if any(scenario.own_pool for scenario in scenarios):
                for _ in range(_BREAKABLE_POOLS):
                    breakable.put(self._new_pool(open_))

            def fill(job: tuple[Scenario, str]) -> None:
                cell = self._cell(job[0], driver_of(job[1]), pool, breakable, quirk(job[0].name, job[1]))
                with self._lock:
                    first = matrix.cells.get((job[0].name, job[1]))
                    cell = cell if first is None else replace(cell, tries=first.tries + 1, first=first.detail)
                    matrix.cells[job[0].name, job[1]] = cell
                    self._notes.add(job[0].name, job[1], cell)
                if cell.verdict in _UNEQUAL:
                    say(f"{job[0].name}, {job[1]}: {cell.verdict.value}: {cell.detail}")
                self._progress(f"{len(matrix.cells)} of {len(jobs)} cells")

            with ThreadPoolExecutor(self._workers) as workers, ThreadPoolExecutor(_BREAKABLE_POOLS) as breakers:
                missing = [job for job in jobs if (job[0].name, job[1]) not in matrix.cells]
                filling = [(breakers if job[0].own_pool else workers).submit(fill, job) for job in missing]
            for each in filling:
                each.result()  # raises the error of a worker
            for job in [job for job in jobs if _once_more(job, matrix)]:
                fill(job)
        matrix.seconds = 0.0 if resumed else time.monotonic() - begin
        return matrix

    def _cell(
        self, scenario: Scenario, driver: Driver, pool: PoolTarget, breakable: queue.Queue[PoolTarget], known: str
    ) -> Cell:
        owner = OwnerTarget(self._stack.endpoints, self._place.admin)
        if not scenario.own_pool:
            return compare(scenario, driver, (owner, pool), self._place, known)
        own = breakable.get()
        try:
            own.renew()
            return compare(scenario, driver, (owner, own), self._place, known)
        finally:
            breakable.put(own)

    def _new_pool(self, open_: ExitStack) -> PoolTarget:
        self._pools += 1
        folder = self._folder / f"pool-{self._pools}"
        folder.mkdir(parents=True, exist_ok=True)
        pool = PoolTarget(self._stack.endpoints, self._place.admin, folder, self._cursors, split=self._split)
        open_.callback(pool.close)
        return pool

    def _progress(self, what: str) -> None:
        now = time.monotonic()
        if now - self._said > _SAY_EVERY_S:
            self._said = now
            say(what)


def _once_more(job: tuple[Scenario, str], matrix: Matrix) -> bool:
    verdict = matrix.cells[job[0].name, job[1]].verdict
    expected = verdict is Verdict.DIFFERENT and bool(reason(job[0].name, job[1], matrix.cursors))
    return verdict in _UNEQUAL and not expected


def _check(failure: Any) -> str:
    """Return the failed check without the observed value."""
    return re.sub(r"\[.*\]|\d+", "...", str(failure))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
