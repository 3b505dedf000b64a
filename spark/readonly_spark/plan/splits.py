"""From ranges of topics to the work of tasks: every entry in exactly one piece. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from readonly_spark.plan.topic_state import LedgerState, Run


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries of one ledger of one topic, for one task.

    Attributes:
        topic: the topic or partition, in full.
        ledger: the ledger.
        first: the first entry.
        last: the last entry, included.
    """

    topic: str
    ledger: LedgerState
    first: int
    last: int

    @property
    def entries(self) -> int:
        """How many."""
        return self.last - self.first + 1

    @property
    def weight(self) -> float:
        """Bytes, about."""
        return self.entries * self.ledger.entry_bytes


def split(
    ranges: Iterable[tuple[str, Sequence[Run]]],
    *,
    most_bytes: int,
    most_messages: int | None = None,
    least_tasks: int = 1,
) -> list[list[Piece]]:
    """The pieces of each task, in the topics' order.

    A run is cut into equal parts where it is too much for one task; small ones that follow each other share a task, those of
    several topics too.

    Args:
        ranges: topics, and what is to be read of each.
        most_bytes: what a task should read; a single entry may be larger.
        most_messages: messages that a task should read; None for any number.
        least_tasks: make at least so many, if there are as many entries.
    """
    runs = [(topic, run) for topic, found in ranges for run in found]
    total = sum(run.bytes for _, run in runs)
    if not runs:
        return []
    target = max(min(float(most_bytes), total / least_tasks), 1.0)
    tasks = _pack(runs, target, most_messages)
    while len(tasks) < least_tasks:
        # The largest is cut in halves: a few times at most, for the target is about right already.
        index = max(range(len(tasks)), key=lambda number: sum(piece.entries for piece in tasks[number]))
        halves = _halves(tasks[index])
        if halves is None:
            break
        tasks[index : index + 1] = halves
    return tasks


def _pack(runs: Sequence[tuple[str, Run]], target: float, most_messages: int | None) -> list[list[Piece]]:
    tasks: list[list[Piece]] = []
    filled = 0.0  # of the last task: 1 is all that it should have
    for topic, run in runs:
        load = max(run.bytes / target, run.messages / most_messages if most_messages else 0.0)
        if tasks and filled + load <= 1.0:
            tasks[-1].append(Piece(topic, run.ledger, run.first, run.last))
            filled += load
            continue
        for piece in _cut(topic, run, min(math.ceil(load), run.entries)):
            tasks.append([piece])
            filled = load * piece.entries / run.entries
    return tasks


def _cut(topic: str, run: Run, parts: int) -> Iterator[Piece]:
    """Equal parts, which differ by one entry at most."""
    parts = max(parts, 1)
    for number in range(parts):
        first = run.first + run.entries * number // parts
        last = run.first + run.entries * (number + 1) // parts - 1
        yield Piece(topic, run.ledger, first, last)


def _halves(task: list[Piece]) -> tuple[list[Piece], list[Piece]] | None:
    """A task in two; None where it is of one entry."""
    total = sum(piece.entries for piece in task)
    if total < 2:
        return None
    left: list[Piece] = []
    wanted = total // 2
    for index, piece in enumerate(task):
        if wanted >= piece.entries:
            left.append(piece)
            wanted -= piece.entries
            continue
        right = task[index + 1 :]
        if wanted:
            cut = piece.first + wanted
            left.append(Piece(piece.topic, piece.ledger, piece.first, cut - 1))
            piece = Piece(piece.topic, piece.ledger, cut, piece.last)  # noqa: PLW2901
        return left, [piece, *right]
    return None
