"""Generate docs/reference/plan.md: plans beside the results of the benches, with the shapes that the model does not explain."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from docsite.constants import MEMORY, OWNER, OWNER_BACKLOG, POOL, POOL_BACKLOG
from docsite.markdown import NOTE, table
from docsite.prediction import MARGIN, NEGLIGIBLE_US, Comparison, all_rows, is_source, without

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE: Final = "docs/reference/plan.md"
HEAD: Final = f"""# Accuracy of a plan

{NOTE}

[`pulsar-readonly plan`](../how-to/plan-size.md) computes with constants from the tables of [Performance](../explanation/performance.md). This page compares
its column EXPECTED with the results of the benches. A plan of a shape that gave a constant repeats its own input, so that comparison
proves little. Two comparisons are independent:

- **without it**: the constants that the shape gave are solved again from the other shapes. A point of a table is left out instead, so its
  neighbours stand for it.
- **no constant**: shapes that gave no constant. Some are of the same runs as the others. Latency, Growth and 5.0.0-M1 are other runs.

A plan is close if it differs by at most {MARGIN:.0%} of the median, or by at most {NEGLIGIBLE_US / 1e4:g} % of a core.
"""
TITLES: Final = {
    POOL: "CPU of the read-only broker, in ms per second",
    POOL_BACKLOG: "CPU of the read-only broker for 1 MB of a backlog, in ms",
    MEMORY: "Memory of the read-only broker, in MB",
    OWNER: "CPU that readers add at the owner, in ms per second",
    OWNER_BACKLOG: "CPU of the owner for 1 MB of a backlog, in ms",
}
"""Heading of each quantity."""

REASONS: Final = (
    (OWNER, "shared: ", "The measurement is the difference of two large figures: its rounds differ by a factor of 2."),
    (OWNER, "few-readers: 5,000", "The owner's background work for 5,000 topics exceeds what the readers add."),
    (OWNER, "growth: ", "Few readers at few messages: the owner's wake for one message depends on its other work."),
    (
        OWNER,
        "saturation: ",
        "The cost of a delivery falls with the rate. Beyond the largest measured rate nothing shows how far.",
    ),
    (
        POOL,
        "latency: ",
        "A wake that reads from bookies costs more than one for pushed entries, of which the constant comes.",
    ),
    (POOL, "fan-out: ", "Large entries of one size: the cost of a KB depends on the KB of one write."),
    (
        POOL,
        "saturation: ",
        "The cost of a message comes from this shape. With 1 KB it is hidden in the cost of its bytes.",
    ),
    (
        POOL,
        "shared: ",
        "The cost of a message falls with the messages of one dispatch, and the model has one constant.",
    ),
    (
        POOL_BACKLOG,
        "catch-up: ",
        "Entries and bytes have one constant each, from one shape each. The third shape has both.",
    ),
    (
        MEMORY,
        "subscriptions: ",
        "The memory of a subscription falls with their number. Beyond the last point nothing shows how far.",
    ),
)
"""Why a shape is not close: quantity, begin of the shape, sentence."""


class PlanRow(NamedTuple):
    """A compared shape.

    Attributes:
        of: the comparison.
        source: whether a constant comes from it.
        independent: the plan that does not know the shape; None where no other shape has its constants.
    """

    of: Comparison
    source: bool
    independent: float | None

    @property
    def close(self) -> bool:
        """Whether the independent plan is close."""
        return self.independent is not None and self.of.is_close(self.independent)


@cache
def compared() -> tuple[PlanRow, ...]:
    """Return all shapes with their independent plans. It takes seconds, so it is computed once."""
    rows = all_rows()
    return tuple(
        PlanRow(one, True, without(one, rows)) if is_source(one) else PlanRow(one, False, one.planned) for one in rows
    )


def reason(row: PlanRow) -> str:
    """Return why a shape is not close.

    Raises:
        ValueError: nothing is known about it.
    """
    if row.independent is None:
        return "No other shape has its constant."
    for quantity, begin, text in REASONS:
        if row.of.quantity == quantity and row.of.shape.startswith(begin):
            return text
    raise ValueError(f"{row.of.shape}: the plan is not close, and {__name__}.REASONS has no reason for it")


def page() -> str:
    """Return the whole page, Markdown."""
    rows = compared()
    parts = [HEAD, _summary(rows), ""]
    for quantity, title in TITLES.items():
        of = [one for one in rows if one.of.quantity == quantity]
        parts += [f"## {title}", _table(of, quantity), ""]
    far = [one for one in rows if not one.close]
    parts += [
        "## Shapes that are not close",
        table(["quantity", "shape", "reason"], [[TITLES[one.of.quantity], one.of.shape, reason(one)] for one in far]),
        "",
        _LAST,
    ]
    return "\n".join(parts)


_LAST: Final = """`plan` names the nearest of the owner's shapes in its output, if a load has Shared or Key_Shared subscriptions, or topics with one reader.

The acks of Shared and Key_Shared subscriptions cost an owner one part for each ACK command and one for each acked entry. Stock clients
group the acks of 100 ms. An earlier model had one cost for each message, which missed batches by a factor of 2. The shape of 2,000
messages per second remains: there the dispatch to single consumers costs more than any other bench shows.

Shapes of the bench Growth with `--tail bookies` are compared only where the default reads from bookies too.
"""


def _summary(rows: Sequence[PlanRow]) -> str:
    lines = []
    for quantity, title in TITLES.items():
        of = [one for one in rows if one.of.quantity == quantity]
        own, others = [one for one in of if one.source], [one for one in of if not one.source]
        lines.append([title, _share(one.of.is_close(one.of.planned) for one in own), _share(one.close for one in own), _share(one.close for one in others)])  # fmt: skip
    return table(
        ["quantity", "close with all constants", "close without it", "close of shapes that gave no constant"], lines
    )


def _share(found: Iterable[bool]) -> str:
    values = list(found)
    return f"{sum(values)} of {len(values)}" if values else "-"


def _table(rows: Sequence[PlanRow], quantity: str) -> str:
    unit = 1e6 if quantity == MEMORY else 1e3
    lines = []
    for one in rows:
        low, middle, high = (_number(value / unit) for value in one.of.rounds)
        measured = middle if low == high else f"{middle} ({low} to {high})"
        alone = "no other shape" if one.independent is None else f"{one.independent / one.of.rounds.expected - 1:+.0%}"
        lines.append([one.of.shape, measured, _number(one.of.planned / unit), f"{one.of.difference:+.0%}", alone if one.source else "", "" if one.source else alone])  # fmt: skip
    return table(["shape", "measured", "plan", "difference", "without it", "no constant"], lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
