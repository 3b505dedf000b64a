"""Speculative reads: ask replicas one after another, the next one early if the one before is slow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from readonly_engine.bookkeeper.errors import BookKeeperError, is_refusal
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")


class AllFailedError(Exception):
    """No replica could answer.

    Attributes:
        failures: every bookie and its error, in the order of the failures.
    """

    def __init__(self, failures: Sequence[tuple[str, Exception]]) -> None:
        super().__init__("; ".join(f"{bookie_id}: {error}" for bookie_id, error in failures))
        self.failures = failures

    @property
    def refused(self) -> bool:
        """Whether each of them refuses this client."""
        return all(is_refusal(error) for _, error in self.failures)


async def speculative_read(
    bookies: Sequence[str],
    ask: Callable[[str], Awaitable[T]],
    timeout_of: Callable[[str], float],
    slow: Callable[[str], None],
) -> T:
    """Return the first answer that is not an error.

    Args:
        bookies: the replicas, best first.
        ask: asks one of them; has a deadline of its own.
        timeout_of: returns the seconds to wait for one before the next is asked too.
        slow: called with each that did not answer within its timeout.

    Raises:
        AllFailedError: all of them failed.
    """
    failures: list[tuple[str, Exception]] = []
    asked: dict[asyncio.Future[T], str] = {}
    left = list(bookies)
    try:
        while left or asked:
            if left:
                newest = left.pop(0)
                asked[asyncio.ensure_future(ask(newest))] = newest
            timeout = timeout_of(newest) if left else None
            done, _ = await asyncio.wait(asked, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                slow(newest)
            for future in done:
                bookie_id = asked.pop(future)
                error = future.exception()
                if error is None:
                    return future.result()
                if not isinstance(error, BookKeeperError | WireError):
                    raise error
                failures.append((bookie_id, error))
    finally:
        for future in asked:
            future.cancel()
            future.add_done_callback(_look_at_error)
    raise AllFailedError(failures)


def _look_at_error(future: asyncio.Future[T]) -> None:
    """Retrieve the error of a request that failed before its cancellation, so that asyncio does not report it."""
    if not future.cancelled():
        future.exception()
