"""Results of cycles, and their table. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S: Final = 15.0
"""Longest time to the first message."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle of sleep.

    Attributes:
        client: language and version of the client that woke the pool.
        subscribed_s: seconds until its SUBSCRIBE was answered.
        first_s: seconds until it had the first message, from the same begin; infinite without one.
        lost: messages that it did not get.
        twice: messages that it got more than once.
        waker_kb: resident memory of the waker just before, in KiB.
        waker_cpu: CPU seconds that the waker had taken for each second asleep.
        error: why it got nothing; empty if it did.
    """

    client: str
    subscribed_s: float
    first_s: float
    lost: int
    twice: int
    waker_kb: int
    waker_cpu: float
    error: str = ""


def table(cycles: Sequence[Cycle]) -> list[str]:
    """Return the table in Markdown: a row for each client, and one for all."""
    rows = [
        "| client | cycles | SUBSCRIBE: median, longest | first message: median, longest | above 15 s | lost | twice | waker |",
        "|---|---:|---|---|---:|---:|---:|---|",
    ]
    names = list(dict.fromkeys(one.client for one in cycles))
    groups = [(name, [one for one in cycles if one.client == name]) for name in names]
    if len(groups) > 1:
        groups.append(("all", list(cycles)))
    for name, group in groups:
        memory = max(one.waker_kb for one in group) / 1024
        cpu = max(one.waker_cpu for one in group)
        cells = (
            name,
            str(len(group)),
            _times([one.subscribed_s for one in group]),
            _times([one.first_s for one in group]),
            str(sum(one.first_s > LIMIT_S for one in group)),
            str(sum(one.lost for one in group)),
            str(sum(one.twice for one in group)),
            f"{memory:.0f} MiB, {cpu * 100:.2f} % of a core",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def failed(cycles: Sequence[Cycle]) -> bool:
    """Return whether a client waited too long, or lost a message."""
    return any(one.first_s > LIMIT_S or one.lost for one in cycles)


def _times(seconds: Sequence[float]) -> str:
    known = sorted(one for one in seconds if math.isfinite(one))
    if not known:
        return "none"
    longest = f"{known[-1]:.1f} s" if len(known) == len(seconds) else "never"
    return f"{known[len(known) // 2]:.1f} s, {longest}"
