"""Run of a command: its exit status, its errors on standard error, and its end by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from readonly_engine import collector

if TYPE_CHECKING:
    from collections.abc import Coroutine

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def print_error(name: str, text: str) -> None:
    """Print an error of a command in one line."""
    print(f"{name}: {text}", file=sys.stderr)  # noqa: T201


def exit_now(status: int) -> NoReturn:
    """End the process at once. While the interpreter ends, a thread of the stock client that returns to Python would abort it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run_command(name: str, work: Coroutine[Any, Any, None], errors: tuple[type[Exception], ...]) -> int:
    """Run a command until it ends, or until SIGINT or SIGTERM.

    Args:
        name: name of the command, for errors.
        work: the command.
        errors: errors whose texts are for the user.

    Returns:
        The exit status: 0 for success, 1 for a failure, 130 after an interrupt.
    """
    collector.tune_garbage_collector()
    try:
        interrupted = asyncio.run(_until_interrupted(work))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has ended, for example `head`. The rest must not be flushed at exit.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except errors as error:
        print_error(name, str(error))
        return 1
    return INTERRUPTED if interrupted else 0


async def _until_interrupted(work: Coroutine[Any, Any, None]) -> bool:
    """Run a coroutine until it ends, or until SIGINT or SIGTERM; return whether a signal ended it."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        await task
    except asyncio.CancelledError:
        if not interrupted:
            raise
    return interrupted
