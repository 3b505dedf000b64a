"""Tables of a terminal: cells of foreign texts, with the width that a terminal gives to each character. Pure."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.status.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP: Final = 2
MIN_NAME: Final = 12
"""Columns that the first column keeps on a narrow terminal. The last columns are cut instead."""


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: its head.
        numeric: whether its cells are numbers, which are aligned at their ends.
    """

    title: str
    numeric: bool = False


def display_width(text: str) -> int:
    """Return the columns that a terminal gives to a text."""
    if text.isascii():
        return len(text)
    return sum(_width(one) for one in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def fit(text: str, width: int) -> str:
    """Return a foreign text cut to a width, without control characters. A tilde shows the cut."""
    text = printable(text)
    if display_width(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        kept += character
    return f"{kept}~" if width > 0 else ""


def padded(text: str, width: int, *, numeric: bool = False) -> str:
    """Return a text cut or filled to a width."""
    text = fit(text, width)
    space = " " * (width - display_width(text))
    return space + text if numeric else text + space


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the lines of a table, its head first. On a narrow terminal the first column shrinks.

    Args:
        columns: its columns.
        rows: the cells of each line, as many as columns.
        width: columns of the terminal.
    """
    widths = [
        max(display_width(one.title), *(display_width(printable(row[index])) for row in rows))
        if rows
        else display_width(one.title)
        for index, one in enumerate(columns)
    ]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    if excess > 0:
        widths[0] = max(widths[0] - excess, min(MIN_NAME, widths[0]))
    lines = [[one.title for one in columns], *rows]
    return [
        fit(
            (" " * GAP)
            .join(
                padded(cell, size, numeric=one.numeric) for cell, size, one in zip(line, widths, columns, strict=True)
            )
            .rstrip(),
            width,
        )
        for line in lines
    ]
