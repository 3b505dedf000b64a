"""Choice of the copy of a ledger to read: on the bookies, or in tiered storage."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError, ReadFailedError
from readonly_engine.config.tiered import BOOKKEEPER_FIRST
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo, OffloadContext

log = logging.getLogger(__name__)

AVOID_S = 10.0
"""Time for which a failed copy of a ledger is tried last."""

_ROOT = "/managed-ledgers/"


def has_offloaded(info: ManagedLedgerInfo | None) -> bool:
    """Return whether a topic's list of ledgers has a completely offloaded one."""
    return info is not None and any(ledger.offload_context.complete for ledger in info.ledger_info)


class LedgerSources:
    """Chooses the copy for each read of a topic's ledgers as the owner does (ManagedLedgerImpl.getLedgerHandle), with a fallback.

    A completely offloaded ledger is read from tiered storage, or by configuration from the bookies while they have it. Every
    other ledger is read from the bookies. If the first choice fails, the other copy is read if there is one.

    Args:
        topic: the topic.
        bookies: reads entries (ledger, first, last) from the bookies.
        tiered: reads offloaded ledgers; None for never.
    """

    __slots__ = ("_avoid", "_bookies", "_offloaded", "_tiered", "_topic")

    def __init__(
        self,
        topic: TopicName,
        bookies: Callable[[int, int, int], Awaitable[list[Entry]]],
        tiered: TieredStorage | None,
    ) -> None:
        self._topic = topic
        self._bookies = bookies
        self._tiered = tiered
        self._offloaded: dict[int, OffloadContext] = {}
        self._avoid: dict[tuple[int, bool], float] = {}

    def topic_changed(self, info: ManagedLedgerInfo | None) -> None:
        """Apply the topic's list of ledgers, which has the offloaded ones."""
        ledgers = [] if info is None else info.ledger_info
        self._offloaded = {
            ledger.ledger_id: ledger.offload_context for ledger in ledgers if ledger.offload_context.complete
        }
        self._avoid = {key: until for key, until in self._avoid.items() if key[0] in self._offloaded}

    async def read(self, ledger_id: int, first: int, last: int) -> list[Entry]:
        """Read the entries from `first` to `last`, both included, in order.

        Raises:
            BookKeeperError: no copy of the ledger can be read now.
        """
        context = self._offloaded.get(ledger_id)
        if context is None:
            return await self._bookies(ledger_id, first, last)
        choices = self._choices(ledger_id, context)
        failures: list[str] = []
        for from_tiered in choices:
            try:
                if from_tiered:
                    return await self._read_tiered(ledger_id, context, first, last)
                return await self._bookies(ledger_id, first, last)
            except (BookKeeperError, TieredStorageError, WireError) as error:
                if (ledger_id, from_tiered) not in self._avoid:
                    where = "tiered storage" if from_tiered else "bookies"
                    log.warning("a copy cannot be read: ledger=%d source=%s error=%s", ledger_id, where, error)
                self._avoid[ledger_id, from_tiered] = asyncio.get_running_loop().time() + AVOID_S
                failures.append(str(error))
        raise ReadFailedError(f"offloaded ledger {ledger_id}: {'; '.join(failures)}")

    def _choices(self, ledger_id: int, context: OffloadContext) -> list[bool]:
        """Return the existing copies in the order of attempts, True for the one in tiered storage."""
        if context.bookkeeper_deleted:
            return [True]
        if self._tiered is None:
            return [False]
        choices = [self._tiered.config.read_priority != BOOKKEEPER_FIRST]
        choices.append(not choices[0])
        now = asyncio.get_running_loop().time()
        return sorted(choices, key=lambda from_tiered: self._avoid.get((ledger_id, from_tiered), 0) > now)

    async def _read_tiered(self, ledger_id: int, context: OffloadContext, first: int, last: int) -> list[Entry]:
        if self._tiered is None:
            raise ReadFailedError("it is in tiered storage only, which is not read here")
        topic_path = self._topic.managed_ledger_path.removeprefix(_ROOT)
        ledger = await self._tiered.open(topic_path, ledger_id, context)
        return await ledger.read(first, last)
