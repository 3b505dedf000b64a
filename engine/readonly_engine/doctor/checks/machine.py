"""Check of this machine: open files against connections, cores against workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

CHECK_FILES: Final = "open files"
CHECK_CORES: Final = "cores"

RESERVED_FILES: Final = 512
"""Descriptors of a process for owners, bookies, the metadata store, logs and scrapes."""

COMFORTABLE_FILES: Final = 10_512
"""Limit below which a process without --max-connections gets a warning: 10,000 clients and the reserve."""

_UNLIMITED: Final = 2**62


@dataclass(frozen=True, slots=True)
class Machine:
    """Limits of this process, which brokers started the same way have too.

    Attributes:
        max_files: hard limit of open files, to which a broker raises its soft limit.
        cores: cores that this process may use, as a fraction under a CPU limit of its container.
        workers: option `workers`.
        max_connections: option `max-connections`, of all workers; 0 for no limit.
    """

    max_files: int
    cores: float
    workers: int
    max_connections: int


def machine_findings(machine: Machine) -> list[Finding]:
    """Return the findings about this machine."""
    return [_files(machine), _cores(machine)]


def _files(machine: Machine) -> Finding:
    each = -(-machine.max_connections // machine.workers)
    observed = f"at most {machine.max_files} for each process" if machine.max_files < _UNLIMITED else "no limit"
    if machine.max_connections:
        observed += f"; max-connections needs {each + RESERVED_FILES}"
        if machine.max_files < each + RESERVED_FILES:
            room = max(0, machine.max_files - RESERVED_FILES) * machine.workers
            return fail(
                CHECK_FILES,
                observed,
                f"raise the hard limit (ulimit -Hn, LimitNOFILE) to {each + RESERVED_FILES}, or set max-connections to {room} "
                "or less",
            )
    elif machine.max_files < COMFORTABLE_FILES:
        return warn(
            CHECK_FILES,
            f"{observed}: room for about {max(0, machine.max_files - RESERVED_FILES)} clients",
            f"raise the hard limit (ulimit -Hn, LimitNOFILE) to {COMFORTABLE_FILES} or more, or set max-connections",
        )
    return ok(CHECK_FILES, observed)


def _cores(machine: Machine) -> Finding:
    workers = f"{machine.workers} worker{'' if machine.workers == 1 else 's'}"
    observed = f"{machine.cores:g} for {workers}"
    if machine.workers > 1 and machine.workers > machine.cores:
        best = max(1, int(machine.cores))
        return warn(CHECK_CORES, observed, f"set workers to {best}, or give the broker more cores")
    return ok(CHECK_CORES, observed)
