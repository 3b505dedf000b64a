"""Results of a bench: samples over rounds, a table, bars of a plot, and raw measurements for JSON."""

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
        """Median of the values."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """Lowest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """Highest value."""
        return max(self.values)

    def text(self, form: str = ".2f") -> str:
        """Return the median with the spread: `2.60 (2.41 to 2.77)`."""
        if len(self.values) == 1:
            return format(self.median, form)
        return f"{self.median:{form}} ({self.low:{form}} to {self.high:{form}})"


def ratio(over: Sequence[float], under: Sequence[float]) -> Sample:
    """Return the ratio of two figures by round, so that a disturbance of a whole round cancels out."""
    return Sample(tuple(a / b if b > 0 else float("inf") for a, b in zip(over, under, strict=True)))


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the plot.

    Attributes:
        group: group of adjacent bars.
        series: name of the series, such as `owner`; each has a colour.
        sample: its height, with its spread.
    """

    group: str
    series: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a bench.

    Attributes:
        columns: headings of the table; all but the first are of figures.
        rows: cells of the table.
        unit: unit of the bars.
        bars: bars of the plot; empty for no plot.
        notes: remarks below the table.
        raw: measurements, for JSON.
        how: description of the measurement, if it differs from the plan.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    unit: str = ""
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = ()
    raw: list[dict[str, Any]] = field(default_factory=list)
    how: str = ""

    def expect_rows(self, name: str, only: str) -> None:
        """Check that something was measured.

        Args:
            name: the bench.
            only: text that names of shapes had to contain.

        Raises:
            DevstackError: no shape was measured.
        """
        if not self.rows:
            raise DevstackError(f"--only {only}: no shape of {name} has that in its name")

    def table(self) -> str:
        """Return the table as Markdown."""
        lines = [f"| {' | '.join(self.columns)} |", "|---|" + "---:|" * (len(self.columns) - 1)]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines)
