"""Limit of open file descriptors of this process. Each connection needs a descriptor."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, as a JVM does: many shells and containers start with 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # the soft limit stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def max_descriptors() -> int:
    """Return the soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
