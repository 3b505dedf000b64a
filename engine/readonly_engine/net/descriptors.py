"""How many file descriptors this process may have: each connection is one."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as a JVM does at its start: many shells and containers give 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def max_descriptors() -> int:
    """The soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
