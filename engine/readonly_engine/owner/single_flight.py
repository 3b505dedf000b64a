"""One request for all callers that need the same answer at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Generic, TypeVar

from readonly_engine.waiting import await_shared, wait_until_done

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs one request for each key at a time. No caller gets the answer of a request that was sent before its call."""

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[T]] = {}
        self._running: dict[Hashable, asyncio.Task[T]] = {}
        self._waiters: Counter[asyncio.Task[T]] = Counter()

    async def run(self, key: Hashable, fetch: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of `fetch`; its errors go to all callers that share it.

        The request is cancelled with its last caller.

        Args:
            key: equal for callers that may share an answer.
            fetch: sends the request.
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
        # Callers from now on need a later answer.
        self._next.pop(key, None)
        self._running[key] = task
        try:
            return await fetch()
        finally:
            if self._running.get(key) is task:
                del self._running[key]
