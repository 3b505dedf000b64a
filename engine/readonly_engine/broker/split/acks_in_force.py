"""Acks before a move of keys to another broker: they must be in force at the owner, which may answer acks and ignore them.

An owner ignores acks of entries that it does not count yet, although the bookies have them (ignored_acks.py). The next broker of
the keys reads the owner's cursor, and would dispatch such entries again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from readonly_engine.broker.subscription.cursor_sync import BACKOFF_S
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from readonly_engine.broker.split.member import AckReceipt
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)


def receipt_in_force(
    answered: AckReceipt, check: Callable[[], Coroutine[None, None, None]], run: Callable[..., asyncio.Task[None]]
) -> AckReceipt:
    """Return a receipt for acks that are in force.

    Args:
        answered: returns whether the owner has answered them.
        check: returns when they are in force; called after that.
        run: starts a task.
    """
    checking: asyncio.Task[None] | None = None

    def in_force() -> bool:
        nonlocal checking
        if checking is None and answered():
            checking = run(check())
        return checking is not None and checking.done()

    return in_force


async def put_in_force(
    name: str, ignored: Callable[[], Awaitable[list[Position]]], send: Callable[[list[Position]], Awaitable[None]]
) -> None:
    """Send acks again that the owner has answered and ignored, until there are none.

    Args:
        name: topic and subscription, as fields for logs.
        ignored: returns their entries; raises RelayError without an answer.
        send: sends acks of entries, and waits for the answers.
    """
    pause = BACKOFF_S[0]
    while True:
        try:
            entries = await ignored()
            if not entries:
                return
            log.warning("sending acks again that the owner ignored: %s acks=%d", name, len(entries))
            await send(entries)
        except RelayError as error:
            log.info("owner's cursor unknown: %s retry_in=%.1fs error=%s", name, pause, error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, BACKOFF_S[1])
