"""Bindings of the read-only brokers: a fault lets one of them name the other keeper of a topic's cursors for a while."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from longtests.chaos.plan import READ_ONLY
from longtests.chaos.workload import TOPICS

if TYPE_CHECKING:
    from pathlib import Path

APART_S: Final = 1.5
"""Longest time in which brokers disagree on the keeper, besides the time until each reads its file again."""

KEPT: Final = tuple(topic for topic in TOPICS if not topic.deleted)
"""Topics whose subscriptions always exist: a new one belongs to the keeper of the moment, and would then stay refused."""


class BindingFiles:
    """The file of each read-only broker.

    Args:
        folder: folder of the files.
        local: whether the pool keeps the cursors without a fault.
        split: whether all brokers serve each Shared and Key_Shared subscription.

    Attributes:
        local: as above.
    """

    def __init__(self, folder: Path, *, local: bool, split: bool = False) -> None:
        self._folder = folder
        self.local = local
        self._other = "Owner" if local else "Local"
        self._split = split
        self._changed: Counter[str] = Counter()
        self._revision = 0

    def path(self, node: str) -> Path:
        """Return the file of a broker."""
        return self._folder / f"{node}.bindings.json"  # JSON is YAML

    def write_all(self) -> None:
        """Write the files of all brokers."""
        self._revision += 1
        for node in READ_ONLY:
            self._write(node)

    async def change_for(self, number: int, seconds: float) -> None:
        """Name the other keeper of the topic that a number selects for some seconds, at one broker after the other."""
        number, index = divmod(number, len(KEPT))
        topic = KEPT[index].full
        first = number % len(READ_ONLY)
        nodes = READ_ONLY[first:] + READ_ONLY[:first]
        apart = APART_S * (number // len(READ_ONLY) % 4) / 3 / (len(READ_ONLY) - 1)
        for step, pause in ((1, seconds), (-1, 0.0)):
            self._changed[topic] += step
            self._revision += 1
            for node in nodes:
                self._write(node)
                await asyncio.sleep(apart)
            await asyncio.sleep(pause)

    def _write(self, node: str) -> None:
        topics = sorted((+self._changed).keys())
        bindings: list[dict[str, object]] = []
        if topics:
            bindings.append({"name": "other", "topics": topics, "cursors": self._other})
        if self._split:
            bindings.append({"name": "split", "topics": [topic.full for topic in TOPICS], "dispatch": "Split"})
        draft = self.path(node).with_suffix(".new")
        draft.write_text(json.dumps({"revision": f"r{self._revision}", "bindings": bindings}), encoding="utf-8")
        draft.replace(self.path(node))
