"""Queries for many items, a limited number at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

A = TypeVar("A")
B = TypeVar("B")

MAX_CONCURRENT_QUERIES: Final = 64
"""Items, such as topics, that are queried at the same time."""


async def gather_bounded(
    query: Callable[[A], Awaitable[B]], items: Iterable[A], at_once: int = MAX_CONCURRENT_QUERIES
) -> list[B]:
    """Run a query for every item, a limited number at a time; the first error cancels the others."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: A) -> B:
        async with gate:
            return await query(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
