"""One answer for all who ask the same before the question is sent, so that a crowd costs little."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Generic, TypeVar

from readonly_engine.waiting import await_shared, wait_until_done

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Asks each question once at a time. Nobody gets an answer to a question that was sent before they asked."""

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[T]] = {}
        self._running: dict[Hashable, asyncio.Task[T]] = {}
        self._waiters: Counter[asyncio.Task[T]] = Counter()

    async def run(self, key: Hashable, fetch: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question; `fetch` sends it, and its errors are those of all who share it.

        A question is given up with the last one who waits for its answer.

        Args:
            key: what is the same for those who may share an answer.
            fetch: gets the answer.
        """
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._run_next(key, fetch))
        self._waiters[task] += 1
        try:
            return await await_shared(task)
        finally:
            self._waiters[task] -= 1
            if not self._waiters[task]:
                del self._waiters[task]
                if task.cancel() and self._next.get(key) is task:
                    del self._next[key]

    async def _run_next(self, key: Hashable, fetch: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        before = self._running.get(key)
        if before is not None:
            await wait_until_done(before)
        # Those who ask from now on need a later answer.
        self._next.pop(key, None)
        self._running[key] = task
        try:
            return await fetch()
        finally:
            if self._running.get(key) is task:
                del self._running[key]
