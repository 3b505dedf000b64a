"""Bar charts as SVG: medians, each with a line for its spread over the rounds."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.figures import Bar

_COLOURS: Final = ("#7a8794", "#1f77b4", "#e6892c", "#4f9d4f", "#a05fa0")
_BAR: Final = 22
_GAP: Final = 26
_HEIGHT: Final = 240
_LEFT: Final = 64
_TOP: Final = 46
_BOTTOM: Final = 112
_LEAST_WIDTH: Final = 420
_STEPS: Final = (1, 2, 2.5, 5, 10)
_LINES: Final = 5


def nice_step(highest: float) -> float:
    """Return the distance of grid lines: 1, 2, 2.5 or 5 times a power of ten, for about five lines."""
    if highest <= 0:
        return 1.0
    rough = highest / _LINES
    power = math.pow(10, math.floor(math.log10(rough)))
    return next(step * power for step in _STEPS if step * power >= rough * 0.999)


def draw(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """Return a bar chart as SVG.

    Args:
        title: title above the chart.
        unit: unit of the figures.
        bars: at least one bar, in order; a group has the place of its first bar.
    """
    groups = list(dict.fromkeys(bar.group for bar in bars))
    series = list(dict.fromkeys(bar.series for bar in bars))
    step = nice_step(max(bar.sample.high for bar in bars))
    top = step * math.ceil(max(bar.sample.high for bar in bars) / step)
    pitch = len(series) * _BAR + _GAP
    width = max(_LEAST_WIDTH, _LEFT + len(groups) * pitch + _GAP)
    height = _TOP + _HEIGHT + _BOTTOM

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (1 - value / top)

    view = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="16" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for index, name in enumerate(series):
        x = _LEFT + index * 130
        out.append(f'<rect x="{x}" y="25" width="10" height="10" fill="{_COLOURS[index % len(_COLOURS)]}"/>')
        out.append(f'<text x="{x + 14}" y="34">{escape(name)}</text>')
    out.append(
        f'<text transform="translate(14 {_TOP + _HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(unit)}</text>'
    )
    for line in range(round(top / step) + 1):
        at = y(line * step)
        out.append(f'<line x1="{_LEFT}" x2="{width - 8}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{line * step:g}</text>')
    for bar in bars:
        index = series.index(bar.series)
        left = _LEFT + groups.index(bar.group) * pitch + _GAP // 2 + index * _BAR
        middle, at = left + _BAR // 2 - 1, y(bar.sample.median)
        place = f'x="{left}" y="{at:.1f}" width="{_BAR - 2}" height="{_TOP + _HEIGHT - at:.1f}"'
        spread = f'y1="{y(bar.sample.low):.1f}" y2="{y(bar.sample.high):.1f}"'
        out.append(f'<rect {place} fill="{_COLOURS[index % len(_COLOURS)]}"/>')
        out.append(f'<line x1="{middle}" x2="{middle}" {spread} stroke="black"/>')
    for index, group in enumerate(groups):
        turn = f"translate({_LEFT + index * pitch + pitch // 2} {_TOP + _HEIGHT + 14}) rotate(-35)"
        out.append(f'<text transform="{turn}" text-anchor="end">{escape(group)}</text>')
    out.append("</svg>\n")
    return "\n".join(out)
