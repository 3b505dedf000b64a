"""Assignment of entry ranges to tasks: every entry goes to exactly one task. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from readonly_spark.plan.topic_state import EntryRange


def split(
    ranges: Iterable[EntryRange],
    *,
    max_bytes: int,
    max_messages: int | None = None,
    min_tasks: int = 1,
) -> list[list[EntryRange]]:
    """Return the ranges of each task, in the given order.

    A range that is too large for one task is cut into equal parts. Small consecutive ranges, of several topics too, share a task.

    Args:
        ranges: the ranges to read.
        max_bytes: target size of a task; a single entry may be larger.
        max_messages: target number of messages of a task; None for no target.
        min_tasks: minimum number of tasks, unless there are fewer entries.
    """
    found = list(ranges)
    total = sum(one.bytes for one in found)
    if not found:
        return []
    target = max(min(float(max_bytes), total / min_tasks), 1.0)
    tasks = _pack(found, target, max_messages)
    while len(tasks) < min_tasks:
        # Halve the largest task: a few times at most, as the target is nearly right already.
        index = max(range(len(tasks)), key=lambda number: sum(one.entries for one in tasks[number]))
        halves = _halves(tasks[index])
        if halves is None:
            break
        tasks[index : index + 1] = halves
    return tasks


def _pack(ranges: Sequence[EntryRange], target: float, max_messages: int | None) -> list[list[EntryRange]]:
    tasks: list[list[EntryRange]] = []
    filled = 0.0  # fraction of the last task's target
    for one in ranges:
        load = max(one.bytes / target, one.messages / max_messages if max_messages else 0.0)
        if tasks and filled + load <= 1.0:
            tasks[-1].append(one)
            filled += load
            continue
        for part in _cut(one, min(math.ceil(load), one.entries)):
            tasks.append([part])
            filled = load * part.entries / one.entries
    return tasks


def _cut(whole: EntryRange, parts: int) -> Iterator[EntryRange]:
    """Yield equal parts, which differ by one entry at most."""
    parts = max(parts, 1)
    for number in range(parts):
        first = whole.first + whole.entries * number // parts
        last = whole.first + whole.entries * (number + 1) // parts - 1
        yield replace(whole, first=first, last=last)


def _halves(task: list[EntryRange]) -> tuple[list[EntryRange], list[EntryRange]] | None:
    """Cut a task in two; return None if it has a single entry."""
    total = sum(one.entries for one in task)
    if total < 2:
        return None
    left: list[EntryRange] = []
    needed = total // 2
    for index, one in enumerate(task):
        if needed >= one.entries:
            left.append(one)
            needed -= one.entries
            continue
        right = task[index + 1 :]
        if needed:
            cut = one.first + needed
            left.append(replace(one, last=cut - 1))
            one = replace(one, first=cut)  # noqa: PLW2901
        return left, [one, *right]
    return None
