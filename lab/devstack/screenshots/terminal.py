"""Draw the captured text of a terminal as SVG. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_LINES: Final = 80
MAX_COLUMNS: Final = 200
SIZE: Final = 14
CELL: Final = 8.4
"""Width of a character. Each line has a fixed length, so columns are straight in any font."""

LINE: Final = 19
MARGIN: Final = 18
BACK: Final = "#131316"
TEXT: Final = "#e9e9ee"
PROMPT: Final = "#a8c7fa"


def draw(command: str, lines: Sequence[str]) -> str:
    """Return a picture of a command and its output.

    Args:
        command: the command line, without a prompt.
        lines: lines of the output, as a terminal without colours shows them.

    Raises:
        DevstackError: there are no lines, too many or too long ones, or one has a control character.
    """
    shown = [f"$ {command}", *(line.rstrip() for line in lines)]
    while len(shown) > 1 and not shown[-1]:
        shown.pop()
    if len(shown) == 1:
        raise DevstackError(f"the output of {command} is empty")
    if len(shown) > MAX_LINES:
        raise DevstackError(f"the output of {command} has {len(shown):,} lines, and a picture at most {MAX_LINES}")
    for line in shown:
        if len(line) > MAX_COLUMNS:
            raise DevstackError(
                f"a line of {command} has {len(line):,} characters, and a picture at most {MAX_COLUMNS}"
            )
        if not line.isprintable():
            raise DevstackError(
                f"a line of {command} has a control character: {line!r}", "capture the text without colours"
            )
    width = round(max(map(len, shown)) * CELL + 2 * MARGIN)
    height = len(shown) * LINE + 2 * MARGIN - (LINE - SIZE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACK}"/>',
        f'<g font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="{SIZE}" fill="{TEXT}">',
    ]
    for number, line in enumerate(shown):
        if line:
            colour = f' fill="{PROMPT}"' if number == 0 else ""
            parts.append(
                f'<text x="{MARGIN}" y="{MARGIN + SIZE - 3 + number * LINE}" textLength="{len(line) * CELL:.1f}"'
                f' xml:space="preserve"{colour}>{escape(line)}</text>'
            )
    return "\n".join([*parts, "</g>", "</svg>", ""])
