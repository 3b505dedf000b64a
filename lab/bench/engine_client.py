"""The engine's client: it reads a ledger from its first entry, in this process."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.reads import CHUNK_BYTES

if TYPE_CHECKING:
    from typing import Any

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata

WINDOWS: Final = 2
WINDOW_BYTES: Final = 2 * CHUNK_BYTES
"""Two reads of two batches each: as many bytes in flight as the Java client has."""


async def read_ledger(cluster: ClusterMetadata, pool: BookiePool, ledger_id: int, entries: int, size: int) -> Any:
    """Read a number of entries of about this size.

    Returns:
        entries, bytes, wall_s and cpu_s, as the Java client does.
    """
    metadata = await cluster.ledger(ledger_id)
    assert metadata is not None
    reader = LedgerReader(ledger_id, metadata, pool)
    window = max(1, WINDOW_BYTES // size)
    cpu, wall = time.process_time(), time.perf_counter()
    waiting: list[asyncio.Task[Any]] = []
    next_id = found = read_bytes = 0
    while next_id < entries or waiting:
        while next_id < entries and len(waiting) < WINDOWS:
            last = min(next_id + window, entries) - 1
            waiting.append(asyncio.create_task(reader.read(next_id, last)))
            next_id = last + 1
        for entry in await waiting.pop(0):
            found += 1
            read_bytes += len(entry.payload)
    return {
        "entries": found,
        "bytes": read_bytes,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
    }
