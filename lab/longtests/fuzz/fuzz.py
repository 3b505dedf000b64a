"""Fuzzing one parser with hypothesis: sound inputs are damaged, and inputs are made up; only named errors may come of it."""

from __future__ import annotations

import contextlib
import resource
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from longtests.fuzz.targets import Target

EXAMPLE_SECONDS: Final = 5.0
"""One input may take so long: more is a hang."""

MEMORY_BYTES: Final = 512 << 20
"""The process may grow by so much; inputs have some KiB, so more is unbounded."""

_ROUND_EXAMPLES: Final = 500
_INTERESTING: Final = tuple(
    number.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for number in (0, 1, -1, 127, (1 << (8 * size - 1)) - 1, -(1 << (8 * size - 1)))
)


class HangError(BaseException):
    """An input took more than EXAMPLE_SECONDS of CPU; not an Exception, so that no parser can catch it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a parser.

    Attributes:
        executions: how many inputs.
        seconds: how long.
        resident_mib: the most memory that the process ever had.
        failure: the defect in words; None where there is none.
        example: the smallest input that shows it.
    """

    executions: int
    seconds: float
    resident_mib: int
    failure: str | None = None
    example: bytes | None = None


def inputs(seeds: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """Sound inputs with a few damages, pieces of several, and anything."""
    edits = st.lists(
        st.tuples(
            st.sampled_from(("flip", "overwrite", "insert", "cut", "repeat", "splice")),
            st.floats(0, 1, exclude_max=True),
            st.one_of(st.binary(min_size=1, max_size=12), st.sampled_from(_INTERESTING), st.sampled_from(seeds)),
        ),
        min_size=1,
        max_size=6,
    )
    return st.one_of(st.builds(damage, st.sampled_from(seeds), edits), st.binary(max_size=200), st.sampled_from(seeds))


def damage(data: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """Apply edits, each at a place that is a share of the length."""
    for kind, share, piece in edits:
        at = int(share * (len(data) + 1))
        match kind:
            case "flip" if at < len(data):
                data = data[:at] + bytes([data[at] ^ piece[0]]) + data[at + 1 :]
            case "overwrite":
                data = data[:at] + piece + data[at + len(piece) :]
            case "insert":
                data = data[:at] + piece + data[at:]
            case "cut":
                data = data[:at] + data[at + piece[0] :]
            case "repeat":
                data = data[:at] + data[at : at + 8] * (piece[0] % 16) + data[at:]
            case "splice":
                data = data[:at] + piece[int(share * len(piece)) :]
    return data


def fuzz(target: Target, limit_seconds: float, first_seed: int, max_executions: int | None = None) -> Result:
    """Fuzz one parser until the time is up, the executions are made, or a defect is found.

    Args:
        target: the parser.
        limit_seconds: how long.
        first_seed: repeats the inputs.
        max_executions: how many inputs at most.
    """
    begin = time.monotonic()
    executions = 0
    last = b""

    def once(data: bytes) -> None:
        nonlocal executions, last
        executions += 1
        last = data
        with _deadline(), contextlib.suppress(*target.errors):
            target.parse(data)

    number = first_seed
    failure: str | None = None
    while failure is None and time.monotonic() - begin < limit_seconds:
        if max_executions is not None and executions >= max_executions:
            break
        examples = _ROUND_EXAMPLES if max_executions is None else min(_ROUND_EXAMPLES, max_executions - executions)
        test = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )(seed(number)(given(inputs(target.seeds))(once)))
        try:
            test()
        except (Exception, HangError) as error:  # noqa: BLE001 - that is what it looks for
            failure = f"{type(error).__name__}: {error}"
        number += 1
    return Result(
        executions,
        time.monotonic() - begin,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        failure,
        last if failure else None,
    )


def limit_memory() -> None:
    """Let this process grow by MEMORY_BYTES at most: beyond it, a parser gets a MemoryError."""
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - not a file but the kernel
        pages = int(statm.read().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    def late(_signal: int, _frame: FrameType | None) -> None:
        raise HangError(f"more than {EXAMPLE_SECONDS:g} CPU seconds for one input")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, EXAMPLE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
