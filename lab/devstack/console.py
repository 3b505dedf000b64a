"""Progress lines with the seconds since the start."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_START = time.monotonic()


def say(message: str) -> None:
    """Print one progress line to standard error; standard output is for results."""
    print(f"[{time.monotonic() - _START:7.1f} s] {message}", file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the start of a long step, and its duration after it succeeded."""
    say(f"{what} ...")
    begin = time.monotonic()
    yield
    say(f"{what}: done in {time.monotonic() - begin:.1f} s")
