"""Pages of a list. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from readonly_engine.status.state import Pages

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

PAGE_SIZE: Final = 100


def page_of(items: Sequence[T], number: int, size: int = PAGE_SIZE) -> tuple[Sequence[T], Pages]:
    """Return the items of a page, and which page it is; the last page for a number after it.

    Args:
        items: the whole list.
        number: number of the page, from 1.
        size: most items of a page.
    """
    count = max(-(-len(items) // size), 1)
    number = min(number, count)
    begin = (number - 1) * size
    return items[begin : begin + size], Pages(number, count, len(items), size)
