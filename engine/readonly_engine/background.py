"""Work that goes on for as long as its owner lives."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""A mistake in a loop must not become a busy loop that writes logs."""


def keep_going(work: Callable[[], Coroutine[Any, Any, None]], what: str) -> asyncio.Task[None]:
    """Run a loop beside; an error that it does not handle is logged with its traceback, and the loop begins again.

    A task that nobody awaits would end without a word, and with it a topic's or a subscription's progress.

    Args:
        work: begins the loop; where it returns, that is the end.
        what: names the work in the log.

    Returns:
        The task; whoever holds it cancels it.
    """
    return asyncio.get_running_loop().create_task(_keep_going(work, what))


async def _keep_going(work: Callable[[], Coroutine[Any, Any, None]], what: str) -> None:
    while True:
        try:
            return await work()
        except Exception:
            log.exception("%s failed unexpectedly; beginning again in %g s", what, AGAIN_S)
        await asyncio.sleep(AGAIN_S)
