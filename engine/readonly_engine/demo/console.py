"""Progress lines of the demo, with the seconds since its start."""

from __future__ import annotations

import sys
import time

_START = time.monotonic()


def elapsed() -> float:
    """Return the seconds since the start."""
    return time.monotonic() - _START


def print_progress(text: str) -> None:
    """Print a progress line to standard error; standard output is for results."""
    print(f"[{elapsed():6.1f} s] {text}", file=sys.stderr, flush=True)
