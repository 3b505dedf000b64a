"""Plan of a bench: rounds, seconds, shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from devstack.pulsar.spec import DEFAULT_VERSION, STOCK_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

ROUNDS: Final = 5
SECONDS: Final = 8.0
TAIL: Final = "auto"
EXPLICIT_LAC_MS: Final = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run, from the command line.

    Attributes:
        rounds: measurements of each side, by turns; one more round comes first and does not count.
        seconds: duration of each measurement.
        short: whether to measure few shapes only.
        only: text that a shape's name must contain; empty for all shapes.
        transactions: whether the cluster has transactions on. The messages are not in transactions.
        tail: `--tail` of the read-only brokers.
        explicit_lac_ms: interval of the owner's explicit LAC; 0 for off.
        release: the owner's release of Pulsar.
    """

    rounds: int = ROUNDS
    seconds: float = SECONDS
    short: bool = False
    only: str = ""
    transactions: bool = False
    tail: str = TAIL
    explicit_lac_ms: int = EXPLICIT_LAC_MS
    release: str = DEFAULT_VERSION

    def __str__(self) -> str:
        return self.described(f"{self.rounds} rounds of {self.seconds:g} s per side")

    def described(self, how: str) -> str:
        """Return a description of the measurement, with the selection of shapes."""
        parts = [how]
        parts += ["a small part of the shapes"] if self.short else []
        parts += ["transactions on"] if self.transactions else []
        parts += [f"--tail {self.tail}"] if self.tail != TAIL else []
        if self.explicit_lac_ms != EXPLICIT_LAC_MS:
            parts.append(
                f"explicit LAC every {self.explicit_lac_ms} ms" if self.explicit_lac_ms else "explicit LAC off"
            )
        parts += [f"only shapes with “{self.only}”"] if self.only else []
        return ", ".join(parts)

    def named(self, bench: str) -> str:
        """Return the name of a bench's results: with the settings that are not the usual ones, as `latency-lac-0`."""
        parts = [bench]
        parts += [self.release] if self.release != STOCK_VERSION else []
        parts += ["transactions"] if self.transactions else []
        parts += [f"tail-{self.tail}"] if self.tail != TAIL else []
        parts += [f"lac-{self.explicit_lac_ms}"] if self.explicit_lac_ms != EXPLICIT_LAC_MS else []
        return "-".join(parts)

    def turns(self, number: int, sides: Sequence[T]) -> list[T]:
        """Return the order of sides in a round; odd rounds have the reverse order, so that no side is always first."""
        return list(sides) if number % 2 == 0 else list(reversed(sides))

    def pick(self, shapes: Sequence[T], short: Sequence[T]) -> list[T]:
        """Return the shapes to measure: all or the short ones, limited by `only`. Commas in numbers are ignored."""
        only = self.only.replace(",", "")
        return [shape for shape in (short if self.short else shapes) if only in str(shape).replace(",", "")]
