"""Counters of a stack's servers, from their metrics."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from devstack.pulsar.status import Endpoints

_READS = re.compile(r'^bookie_BOOKIE_READ_ENTRY_count\{success="true"\} (\d+)$', re.MULTILINE)


def entries_read(endpoints: Endpoints) -> int:
    """Return the number of entries that the bookies have read from storage so far, for any kind of request.

    Raises:
        DevstackError: a bookie has no such metric.
        OSError: a bookie does not answer.
    """
    return sum(map(entries_read_at, endpoints.bookie_metrics))


def entries_read_at(url: str) -> int:
    """Return the number of entries that one bookie has read, by the URL of its metrics.

    Raises:
        DevstackError: the bookie has no such metric.
        OSError: the bookie does not answer.
    """
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - http, of a stack of our own
        found = _READS.findall(response.read().decode())
    if not found:
        raise DevstackError(f"{url} does not count the entries that are read", "is it a bookie of BookKeeper 4.x?")
    return sum(map(int, found))
