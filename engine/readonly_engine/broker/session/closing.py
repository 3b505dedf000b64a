"""Time slices for the end of clients: others are served while the consumers of lost clients are closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from readonly_engine.net.frame_slicer import SLICE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

    from readonly_engine.broker.consumer.client_consumer import ClientConsumer

log = logging.getLogger(__name__)


class ClosingConsumers:
    """Closes the consumers of lost clients on their owners, in order.

    Each takes about a millisecond. A client with 10,000 consumers, or many clients that are lost together, would keep the event
    loop busy for seconds.

    Args:
        spawn: runs a task of the broker.
    """

    def __init__(self, spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]) -> None:
        self._spawn = spawn
        self._waiting: deque[ClientConsumer] = deque()
        self._closing = False

    def close(self, consumers: Iterable[ClientConsumer]) -> None:
        """Close consumers: the first ones at once, if no others wait."""
        self._waiting.extend(consumers)
        if not self._closing and self._close_some():
            self._closing = True
            self._spawn(self._close_rest())

    def _close_some(self) -> bool:
        """Close consumers for SLICE_S; return whether more are waiting."""
        until = time.monotonic() + SLICE_S
        while self._waiting:
            consumer = self._waiting.popleft()
            try:
                consumer.unregister()
            except Exception:
                log.exception("consumer of a lost client did not leave: topic=%s", consumer.topic)
            self._spawn(consumer.close())
            if time.monotonic() >= until:
                break
        return bool(self._waiting)

    async def _close_rest(self) -> None:
        try:
            more = True
            while more:
                await asyncio.sleep(0)
                more = self._close_some()
        finally:
            self._closing = False
