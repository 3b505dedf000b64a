"""What scenarios of all themes use."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def numbers(count: int, start: int = 0) -> list[str]:
    """Values that can be told apart, in order: the texts of so many numbers."""
    return [str(number) for number in range(start, start + count)]


def together(parts: Iterable[list[str]]) -> list[str]:
    """What several consumers got, as one list."""
    return list(chain.from_iterable(parts))
