"""Work in the background, and its unexpected errors: a loop starts again, a part of the broker ends, or the process does.

Nobody awaits a timer or a done callback, and few tasks are awaited. After an error in one, its part would neither work nor end.
"""

from __future__ import annotations

import asyncio
import logging
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)

Owner = TypeVar("Owner")
Given = ParamSpec("Given")

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


def next_tick(now: float, interval_s: float) -> float:
    """Return the time of the next tick, half an interval away at least. All ticks are multiples of their interval.

    So work that a broker at rest repeats shares its wake-ups.
    """
    return (round(now / interval_s) + 1) * interval_s


async def sleep_to_tick(interval_s: float) -> None:
    """Sleep until the next tick (`next_tick`)."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(next_tick(now, interval_s) - now)


def fires_by(timer: asyncio.Handle | None, due: float) -> bool:
    """Return whether a timer is set, and fires at a time or earlier.

    uvloop's `call_at` returns a Handle without a time, as `call_soon`, if less than half a millisecond is left. So much time may
    pass in `call_at` itself where the process has to wait for a core.

    Args:
        timer: what `call_at` has returned, until it has fired.
        due: the time, of the event loop's clock.
    """
    return timer is not None and (not hasattr(timer, "when") or timer.when() <= due)


def ends(
    end: str,
) -> Callable[[Callable[Concatenate[Owner, Given], None]], Callable[Concatenate[Owner, Given], None]]:
    """Return a decorator for a method that the event loop calls: an unexpected error is logged, and ends the part that it is of.

    Args:
        end: name of the method that ends the part, maybe of an attribute (`connection.abort`).
    """

    def decorate(method: Callable[Concatenate[Owner, Given], None]) -> Callable[Concatenate[Owner, Given], None]:
        @wraps(method)
        def guarded(self: Owner, *args: Given.args, **kwargs: Given.kwargs) -> None:
            try:
                method(self, *args, **kwargs)
            except Exception:
                log.exception("%s failed unexpectedly; %s follows", method.__qualname__, end)
                attrgetter(end)(self)()

        guarded.ends = end  # type: ignore[attr-defined]
        return cast("Callable[Concatenate[Owner, Given], None]", guarded)

    return decorate


def end_with(task: asyncio.Task[Any], end: Callable[[BaseException], None]) -> None:
    """Call `end` with the unexpected error of a task that nobody awaits."""

    def ended(task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed unexpectedly", getattr(task.get_coro(), "__qualname__", "task"), exc_info=error)
            end(error)

    task.add_done_callback(ended)


def must_not_fail(task: asyncio.Task[Any]) -> None:
    """Let an unexpected error of a task end the process (ProcessGuard): the broker cannot do without it."""
    task.add_done_callback(_raise_error)


def _raise_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


_PROTOCOL: Final = frozenset(
    {"connection_made", "data_received", "eof_received", "connection_lost", "pause_writing", "resume_writing"}
)
"""Methods of asyncio.Protocol: the event loop closes the connection after an error in one."""


class ProcessGuard:
    """Ends the process after an error in a callback of the event loop that ends nothing smaller. A supervisor starts it again.

    Errors of other packages' callbacks, and of tasks that nobody awaits, are only logged, as by default.

    Args:
        package: name of the package whose callbacks are meant.
        stop: ends the process.

    Attributes:
        error: the first such error; None without one.
    """

    def __init__(self, package: str, stop: Callable[[], None]) -> None:
        self._package = package
        self._stop = stop
        self.error: BaseException | None = None

    def install(self) -> None:
        """Become the handler of errors of the running event loop."""
        asyncio.get_running_loop().set_exception_handler(self._handle)

    def end(self, error: BaseException) -> None:
        """End the process, after an error that was logged."""
        log.critical("a part that the broker cannot do without has failed, stopping")
        self.error = self.error or error
        self._stop()

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        error = context.get("exception")
        if "handle" in context and isinstance(error, Exception) and self._is_ours(error):
            self.end(error)

    def _is_ours(self, error: BaseException) -> bool:
        """Return whether the event loop has called a function of the package, and no method of a protocol."""
        trace = error.__traceback__
        while trace is not None:
            module = str(trace.tb_frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] not in {"asyncio", "uvloop"}:
                return module.startswith(f"{self._package}.") and trace.tb_frame.f_code.co_name not in _PROTOCOL
            trace = trace.tb_next
        return False
