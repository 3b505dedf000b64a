"""Free TCP ports of loopback, which several processes of tests choose at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from pathlib import Path

FREE_PORTS: Final = (10_000, 14_999)
"""Below the ports of the stacks, and below those of outgoing connections on Linux (from 32768 on): a broker that stops keeps its
port for its next start."""

KEPT: Final = 200
"""Number of the last ports that a process keeps from the others."""

_TRIES: Final = 100

_kept: deque[int] = deque()
"""Descriptors of the locked files of the last ports, oldest first."""


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1, which no other process gets from here while this one lives.

    A server binds its port some time after it was chosen. Until then a lock, which ends with the process, keeps it from others.

    Raises:
        DevstackError: there is none.
    """
    folder = cache_root() / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    for port in random.sample(range(*FREE_PORTS), _TRIES):
        descriptor = _locked(folder / str(port))
        if descriptor is None:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _kept.append(descriptor)
            if len(_kept) > KEPT:
                os.close(_kept.popleft())
            return port
        os.close(descriptor)
    raise DevstackError("no port is free", f"{_TRIES} ports from {FREE_PORTS[0]} to {FREE_PORTS[1]} were tried")


def _locked(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
