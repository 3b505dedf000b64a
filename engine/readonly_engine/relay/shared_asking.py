"""One answer for all who ask the same before the question is sent, so that a crowd costs little."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Generic, TypeVar

from readonly_engine.waiting import ended, shared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

T = TypeVar("T")


class SharedAsking(Generic[T]):
    """Asks each question once at a time. Nobody gets an answer to a question that was sent before they asked."""

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[T]] = {}
        self._under_way: dict[Hashable, asyncio.Task[T]] = {}
        self._asked: Counter[asyncio.Task[T]] = Counter()

    async def ask(self, question: Hashable, send: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question; `send` sends it, and its errors are those of all who share it.

        A question is given up with the last one who waits for its answer.

        Args:
            question: what is the same for those who may share an answer.
            send: gets the answer.
        """
        asking = self._next.get(question)
        if asking is None:
            asking = self._next[question] = asyncio.create_task(self._send(question, send))
        self._asked[asking] += 1
        try:
            return await shared(asking)
        finally:
            self._asked[asking] -= 1
            if not self._asked[asking]:
                del self._asked[asking]
                if asking.cancel() and self._next.get(question) is asking:
                    del self._next[question]

    async def _send(self, question: Hashable, send: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        before = self._under_way.get(question)
        if before is not None:
            await ended(before)
        # Those who ask from now on need a later answer.
        self._next.pop(question, None)
        self._under_way[question] = task
        try:
            return await send()
        finally:
            if self._under_way.get(question) is task:
                del self._under_way[question]
