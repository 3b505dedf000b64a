"""Waits for what many others wait for too.

asyncio.shield and asyncio.wait look through all who wait whenever one of them gives up. Where ten thousand do so
together, because their client has gone, each takes half a millisecond: nobody else is served for seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_waiting: WeakKeyDictionary[asyncio.Future[Any], set[asyncio.Future[None]]] = WeakKeyDictionary()


async def ended(awaited: asyncio.Future[Any]) -> None:
    """Wait until a future or task is done, whatever came of it. Whoever gives up does not end it."""
    if awaited.done():
        return
    waiters = _waiting.get(awaited)
    if waiters is None:
        waiters = _waiting[awaited] = set()
        awaited.add_done_callback(_wake)
    waiter: asyncio.Future[None] = awaited.get_loop().create_future()
    waiters.add(waiter)
    try:
        await waiter
    finally:
        waiters.discard(waiter)


async def shared(awaited: asyncio.Future[T]) -> T:
    """The result of a future or task, or its error. Whoever gives up does not end it."""
    await ended(awaited)
    return awaited.result()


def _wake(awaited: asyncio.Future[Any]) -> None:
    for waiter in _waiting.pop(awaited, ()):
        if not waiter.done():
            waiter.set_result(None)
