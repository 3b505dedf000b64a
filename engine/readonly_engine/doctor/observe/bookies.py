"""Requests to each registered bookie, about a ledger that does not exist."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import (
    BatchUnsupportedError,
    BookKeeperError,
    NoSuchLedgerError,
)
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.doctor.checks.bookies import BookieAnswer, BookieAnswers
from readonly_engine.doctor.checks.failure import Failure, FailureKind
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.ledgers import LedgerMetadata

if TYPE_CHECKING:
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.doctor.clients import Clients
    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.metadata.cluster import ClusterMetadata

NO_LEDGER: Final = 2**62
"""Id of a ledger that no cluster has."""

MAX_CONCURRENT: Final = 16
MAX_BOOKIES: Final = 500
"""Registered bookies that are asked, and bookies that are down and named; the others are counted."""

BATCH_ATTEMPTS: Final = 2
"""A bookie that goes down closes a connection, too (BookiePool.refused_batch)."""


async def ask_bookies(clients: Clients, deadline: Deadline) -> BookieAnswers:
    """Ask every registered bookie; the stores are connected."""
    stores, pool = clients.stores, clients.bookies
    assert stores is not None, "connect_stores first"
    if pool is None:
        return BookieAnswers(
            failure=Failure(FailureKind.OTHER, "the files of bookie-tls or bookie-login cannot be used")
        )
    try:
        async with deadline.request():
            registered = await stores.cluster.bookies()
    except (MetadataError, TimeoutError) as error:
        return BookieAnswers(failure=failure_of(error))
    known: frozenset[str] = frozenset()
    with suppress(MetadataError, TimeoutError):  # brokers do not read cookies, so this right may be missing
        async with deadline.request():
            known = await stores.cluster.known_bookies()
    down = sorted(known - registered.keys())
    chosen = list(registered.items())[:MAX_BOOKIES]
    more = len(registered) - len(chosen) + max(0, len(down) - MAX_BOOKIES)
    slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def ask(bookie_id: str, read_only: bool) -> BookieAnswer:
        async with slots:
            return await _ask(bookie_id, read_only, stores.cluster, pool, deadline)

    answers = await asyncio.gather(*(ask(*one) for one in chosen))
    return BookieAnswers(answers, down[:MAX_BOOKIES], more=more)


async def _ask(
    bookie_id: str, read_only: bool, cluster: ClusterMetadata, pool: BookiePool, deadline: Deadline
) -> BookieAnswer:
    address = ""
    reader = LedgerReader(NO_LEDGER, _metadata(bookie_id), pool)
    try:
        async with deadline.request():
            host, port = await cluster.bookie_address(bookie_id)
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            await reader.read_lac_at(bookie_id)
    except (MetadataError, BookKeeperError, WireError, TimeoutError) as error:
        return BookieAnswer(bookie_id, read_only, address, failure_of(error))
    return BookieAnswer(bookie_id, read_only, address, None, await _knows_batches(reader, bookie_id, deadline))


async def _knows_batches(reader: LedgerReader, bookie_id: str, deadline: Deadline) -> bool | None:
    """Return whether a bookie answers batch reads; None if it does not answer in time."""
    for _ in range(BATCH_ATTEMPTS):
        try:
            async with deadline.request():
                await reader.read_tail_batch(bookie_id, 0)
        except BatchUnsupportedError:
            continue
        except NoSuchLedgerError:
            return True
        except (BookKeeperError, MetadataError, WireError, TimeoutError):
            return None
        else:
            return True
    return False


def _metadata(bookie_id: str) -> LedgerMetadata:
    return LedgerMetadata(((0, (bookie_id,)),), 1, 1, False, -1, LedgerMetadataFormat.CRC32C)
