"""Progress lines of the demo, with the seconds since its start."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from readonly_engine.demo.errors import DemoError

_START = time.monotonic()


def elapsed() -> float:
    """Return the seconds since the start."""
    return time.monotonic() - _START


def print_progress(text: str) -> None:
    """Print a progress line to standard error; standard output is for results."""
    print(f"[{elapsed():6.1f} s] {text}", file=sys.stderr, flush=True)


async def ask_to_go_on() -> None:
    """Wait for an answer on the terminal: y or yes go on.

    Raises:
        DemoError: another answer, or the end of the input.
    """
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    answered = loop.create_future()

    def read() -> None:
        if not answered.done():
            answered.set_result(os.read(terminal, 1024))

    loop.add_reader(terminal, read)
    try:
        answer = await answered
    finally:
        loop.remove_reader(terminal)
    if not answer.endswith(b"\n") or answer.strip().lower() not in {b"y", b"yes"}:
        raise DemoError("nothing was created")
