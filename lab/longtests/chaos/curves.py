"""SVG picture of a soak over time: memory, open files and tasks of each broker, and latency, one below the other."""

from __future__ import annotations

import math
import statistics
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.plot import nice_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longtests.chaos.run import Outcome

_COLOURS: Final = ("#1f77b4", "#e6892c", "#4f9d4f", "#a05fa0")
_WIDTH: Final = 760
_HEIGHT: Final = 120
_LEFT: Final = 60
_TOP: Final = 46
_GAP: Final = 34
_RIGHT: Final = 12


class Panel(NamedTuple):
    """One diagram.

    Attributes:
        title: title with the unit.
        curves: minutes and values by name.
    """

    title: str
    curves: Mapping[str, Sequence[tuple[float, float]]]


def draw(title: str, panels: Sequence[Panel], minutes: float) -> str:
    """Return the picture.

    Args:
        title: title above it.
        panels: at least one, from top to bottom.
        minutes: the end of the time axis.
    """
    height = _TOP + len(panels) * (_HEIGHT + _GAP) + 10
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    view = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="16" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for index, name in enumerate(names):
        x = _LEFT + index * 110
        out.append(f'<rect x="{x}" y="24" width="10" height="10" fill="{_COLOURS[index % len(_COLOURS)]}"/>')
        out.append(f'<text x="{x + 14}" y="33">{escape(name)}</text>')
    for number, panel in enumerate(panels):
        out += _panel(panel, names, _TOP + number * (_HEIGHT + _GAP) + 12, minutes)
    out.append("</svg>\n")
    return "\n".join(out)


def _panel(panel: Panel, names: Sequence[str], top: float, minutes: float) -> list[str]:
    highest = max((value for points in panel.curves.values() for _, value in points), default=0.0)
    step = nice_step(highest)
    most = step * max(math.ceil(highest / step), 1)
    wide = _WIDTH - _LEFT - _RIGHT
    bottom = top + _HEIGHT - 12

    def x(minute: float) -> float:
        return _LEFT + wide * minute / minutes

    def y(value: float) -> float:
        return bottom - (bottom - top) * value / most

    out = [f'<text x="{_LEFT}" y="{top - 4:.1f}">{escape(panel.title)}</text>']
    for line in range(round(most / step) + 1):
        at = y(line * step)
        out.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{line * step:g}</text>')
    pace = nice_step(minutes)
    out += [
        f'<text x="{x(mark * pace):.1f}" y="{bottom + 14:.1f}" text-anchor="middle">{mark * pace:g} min</text>'
        for mark in range(int(minutes / pace) + 1)
    ]
    for name, points in panel.curves.items():
        colour = _COLOURS[names.index(name) % len(_COLOURS)]
        path = " ".join(f"{x(minute):.1f},{y(value):.1f}" for minute, value in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
    return out


def draw_soak(outcome: Outcome) -> str:
    """Return the picture of a soak."""
    nodes = sorted({sample.node for sample in outcome.samples})

    def of(what: str) -> dict[str, list[tuple[float, float]]]:
        return {
            node: [(one.at / 60, getattr(one, what)) for one in outcome.samples if one.node == node] for node in nodes
        }

    latencies = {minute: values for minute, values in outcome.verdict.latencies.items() if minute >= 0 and values}
    half = [(minute + 0.5, 1000 * statistics.median(latencies[minute])) for minute in sorted(latencies)]
    panels = [
        Panel("memory, MB", of("memory")),
        Panel("open file descriptors", of("files")),
        Panel("tasks of the event loop", of("tasks")),
        Panel("median latency from send to delivery, ms", {"all": half}),
    ]
    ends = [outcome.seconds / 60, *(one.at / 60 for one in outcome.samples), *(minute for minute, _ in half)]
    assert outcome.injector is not None
    title = f"{outcome.seconds / 60:.0f} minutes, {len(outcome.injector.done)} faults, seed {outcome.plan.seed}"
    return draw(title, panels, max(ends))
