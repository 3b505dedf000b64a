"""Wait for conditions, with a deadline."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_POLL_INTERVAL_S: Final = 0.02
_LOOP_POLL_INTERVAL_S: Final = 0.001


def wait_until(condition: Callable[[], T], seconds: float = 30.0, what: str = "the condition") -> T:
    """Return the first true result of a condition.

    Raises:
        AssertionError: there is none within the time.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(_POLL_INTERVAL_S)
    return found


async def until(condition: Callable[[], T], seconds: float = 30.0, what: str = "the condition") -> T:
    """Return the first true result of a condition, while the event loop runs.

    Raises:
        AssertionError: there is none within the time.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(_LOOP_POLL_INTERVAL_S)
    return found


def pass_time(seconds: float) -> None:
    """Let the running event loop's timers take this time for passed."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
