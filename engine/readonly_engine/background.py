"""Background loops that survive unexpected errors."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)

RESTART_DELAY_S: Final = 1.0
"""Pause after an unexpected error, so that a broken loop does not flood the log."""


def run_forever(work: Callable[[], Coroutine[Any, Any, None]], what: str) -> asyncio.Task[None]:
    """Run a loop in the background. An unexpected error is logged with its traceback, and the loop starts again.

    A task that is not awaited would end silently, and with it a topic's or a subscription's progress.

    Args:
        work: starts the loop; its return ends the task.
        what: name of the work in the log.

    Returns:
        The task, which the caller cancels.
    """
    return asyncio.get_running_loop().create_task(_keep_going(work, what))


async def _keep_going(work: Callable[[], Coroutine[Any, Any, None]], what: str) -> None:
    while True:
        try:
            return await work()
        except Exception:
            log.exception("%s failed unexpectedly; starting again in %g s", what, RESTART_DELAY_S)
        await asyncio.sleep(RESTART_DELAY_S)
