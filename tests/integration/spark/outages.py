"""Servers that go away under a stream or an export, for as long as many triggers."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from devstack.pulsar.cluster import PulsarCluster

AWAY_S: Final = 4.0
"""Time for which servers are away: many triggers."""

BOOKIES: Final = 2
"""All bookies of the stack."""


@contextmanager
def metadata_store_killed(stack: PulsarCluster) -> Iterator[None]:
    """Kill the metadata store for the time of the context."""
    servers = stack.status().servers
    name, pid = next((one.name, one.pid) for one in servers if one.name.startswith(("zookeeper", "oxia-0")))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    try:
        yield
    finally:
        stack.start_metadata_server(name)


@contextmanager
def bookies_stopped(stack: PulsarCluster) -> Iterator[None]:
    """Stop all bookies for the time of the context."""
    for index in range(BOOKIES):
        stack.stop_bookie(index)
    try:
        yield
    finally:
        for index in range(BOOKIES):
            stack.start_bookie(index)


def watch(check: Callable[[], None]) -> None:
    """Check again and again while servers are away."""
    end = time.monotonic() + AWAY_S
    while time.monotonic() < end:
        check()
        time.sleep(0.1)  # between two looks
