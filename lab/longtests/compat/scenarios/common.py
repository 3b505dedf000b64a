"""Helpers of scenarios of all themes."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longtests.compat.handles import Message


def numbers(count: int, start: int = 0) -> list[str]:
    """Return `count` distinct values in order: numbers as text."""
    return [str(number) for number in range(start, start + count)]


def together(parts: Iterable[list[str]]) -> list[str]:
    """Return the values of several consumers as one list."""
    return list(chain.from_iterable(parts))


def stored(message: Message | str) -> str:
    """Return the id of a message as an application has it that stores ids as bytes and reads them back."""
    return f"stored/{message if isinstance(message, str) else message.id}"
