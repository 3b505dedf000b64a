"""How a bench is run: rounds, seconds, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

ROUNDS: Final = 5
SECONDS: Final = 8.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asks for.

    Attributes:
        rounds: how often each is measured, in turns; one more round comes first and does not count.
        seconds: how long each is measured.
        short: whether to measure a small part of it only.
        only: text that a shape's name must contain; empty for all.
    """

    rounds: int = ROUNDS
    seconds: float = SECONDS
    short: bool = False
    only: str = ""

    def __str__(self) -> str:
        return self.described(f"{self.rounds} rounds of {self.seconds:g} s a side")

    def described(self, how: str) -> str:
        """How it was measured, and how much of it."""
        parts = [how]
        parts += ["a small part of the shapes"] if self.short else []
        parts += [f"only shapes with “{self.only}”"] if self.only else []
        return ", ".join(parts)

    def turns(self, number: int, sides: Sequence[T]) -> list[T]:
        """The order of a round: each second one the other way round, so that none is always first."""
        return list(sides) if number % 2 == 0 else list(reversed(sides))

    def pick(self, shapes: Sequence[T], short: Sequence[T]) -> list[T]:
        """The shapes to measure: all, or the short ones, and of those what was asked for, with or without commas in numbers."""
        only = self.only.replace(",", "")
        return [shape for shape in (short if self.short else shapes) if only in str(shape).replace(",", "")]
