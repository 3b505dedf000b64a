"""Progress that a person can follow: every line carries the seconds since the start."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_START = time.monotonic()


def say(message: str) -> None:
    """Print one line of progress to standard error, so that standard output stays for results."""
    print(f"[{time.monotonic() - _START:7.1f} s] {message}", file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Announce a long piece of work, and say how long it took when it ends well."""
    say(f"{what} ...")
    begin = time.monotonic()
    yield
    say(f"{what}: done in {time.monotonic() - begin:.1f} s")
