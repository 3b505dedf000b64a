"""Which messages of a batch are read, where a query starts or ends within it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.topic.position import Position


@dataclass(frozen=True, slots=True)
class PartialEntry:
    """An entry of which some messages are read, if it is a batch.

    Attributes:
        position: the entry.
        first: the batch index of the first message to read.
        end: the batch index after the last one; None for all that follow.
    """

    position: Position
    first: int = 0
    end: int | None = None
