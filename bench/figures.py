"""What comes out of a bench: samples over rounds, a table, bars for its plot, and the whole as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Sample:
    """A figure over the rounds.

    Attributes:
        values: one for each round.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The lowest."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The highest."""
        return max(self.values)

    def text(self, form: str = ".2f") -> str:
        """The median, and the spread behind it: `2.60 (2.41 to 2.77)`."""
        if len(self.values) == 1:
            return format(self.median, form)
        return f"{self.median:{form}} ({self.low:{form}} to {self.high:{form}})"


def ratio(over: Sequence[float], under: Sequence[float]) -> Sample:
    """One figure to another, round by round: what slows both down in a round does not count."""
    return Sample(tuple(a / b if b > 0 else float("inf") for a, b in zip(over, under, strict=True)))


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the plot.

    Attributes:
        group: bars of one group stand together.
        series: what it is, such as `owner`; each has its colour.
        sample: its height, with its spread.
    """

    group: str
    series: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class Report:
    """What a bench has found.

    Attributes:
        columns: of the table; those after the first are figures.
        rows: their texts.
        unit: of the bars.
        bars: for the plot; none for no plot.
        notes: what is to be said below the table.
        raw: what was measured, as JSON takes it.
        how: how it was measured, where not as the plan says.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    unit: str = ""
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = ()
    raw: list[dict[str, Any]] = field(default_factory=list)
    how: str = ""

    def expect_rows(self, name: str, only: str) -> None:
        """Raise a DevstackError where nothing was measured.

        Args:
            name: the bench.
            only: what its shapes had to contain.
        """
        if not self.rows:
            raise DevstackError(f"--only {only}: no shape of {name} has that in its name")

    def table(self) -> str:
        """Markdown."""
        lines = [f"| {' | '.join(self.columns)} |", "|---|" + "---:|" * (len(self.columns) - 1)]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines)
