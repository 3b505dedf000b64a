"""The table of a run, for the report and docs/testing/messages.md."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtests.replay.arrivals import Judged


COLUMNS: Final = (
    "replay",
    "messages",
    "seconds",
    "lost",
    "of another time",
    "twice",
    "out of order",
    "later than one of another partition: p99, worst",
    "drift: p50, p99, worst",
)
COSTS: Final = (
    "owner during the week: messages, bytes",
    "its CPU: during the week, before",
    "CPU of a broker for a message: catch-up",
    "replay",
    "ratio",
)


class Owner(NamedTuple):
    """What the owner did for a replay.

    Attributes:
        messages: messages that it dispatched meanwhile.
        bytes: their bytes.
        cpu: its CPU seconds in each second of the replay.
        idle_cpu: its CPU seconds in each second before, without clients.
    """

    messages: int
    bytes: int
    cpu: float
    idle_cpu: float


class ReplayResult(NamedTuple):
    """One replay.

    Attributes:
        name: what it was.
        judged: its arrivals.
        seconds: how long it took.
    """

    name: str
    judged: Judged
    seconds: float


def table(
    rows: Sequence[ReplayResult], owner: Owner, catch_up_us: Sequence[float], replay_us: Sequence[float]
) -> list[str]:
    """Return tables in Markdown.

    Args:
        rows: the replays.
        owner: what the owner did during that of the week.
        catch_up_us: CPU microseconds of the broker for each message of normal catch-ups.
        replay_us: the same of replays with unlimited speed, in alternation.
    """
    made = [
        f"| {' | '.join(COLUMNS)} |",
        "|---|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for name, judged, seconds in rows:
        drift = ", ".join(f"{one:,.1f}" for one in judged.drift_ms)
        cells = [
            name,
            f"{judged.messages:,}",
            f"{seconds:,.0f}",
            str(judged.lost),
            str(judged.foreign),
            str(judged.twice),
            str(judged.disordered),
            ", ".join(f"{one:,.1f}" for one in judged.across_ms) + " ms" if drift else "",
            f"{drift} ms" if drift else "",
        ]
        made.append("| " + " | ".join(cells) + " |")
    catch_up, replay = median(catch_up_us), median(replay_us)
    cells = [
        f"{owner.messages}, {owner.bytes}",
        f"{owner.cpu * 100:.1f} %, {owner.idle_cpu * 100:.1f} %",
        f"{_range(catch_up_us)} µs",
        f"{_range(replay_us)} µs",
        f"{replay / catch_up:.2f}",
    ]
    return [*made, "", f"| {' | '.join(COSTS)} |", "|---|---|---|---|---:|", f"| {' | '.join(cells)} |"]


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
