"""Open one offloaded ledger of each store, by the option `tiered-storage`. Objects are only read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.tiered import OffloadedCopy
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.tiered.stores import locate
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.wire.managed_ledger_pb2 import LedgerInfo, ManagedLedgerInfo

_ROOT: Final = "/managed-ledgers/"


async def open_offloaded(
    ledgers: Mapping[TopicName, ManagedLedgerInfo], tiered: TieredStorage, deadline: Deadline
) -> list[OffloadedCopy]:
    """Open the oldest offloaded ledger of each store, one without a copy on bookies if there is any."""
    chosen: dict[str, tuple[TopicName, LedgerInfo]] = {}
    for topic, info in ledgers.items():
        for ledger in info.ledger_info:
            context = ledger.offload_context
            if not context.complete:
                continue
            store = _store_of(ledger, tiered)
            before = chosen.get(store)
            if before is None or (context.bookkeeper_deleted and not before[1].offload_context.bookkeeper_deleted):
                chosen[store] = (topic, ledger)
    return list(
        await asyncio.gather(
            *(_open(store, topic, ledger, tiered, deadline) for store, (topic, ledger) in chosen.items())
        )
    )


def _store_of(ledger: LedgerInfo, tiered: TieredStorage) -> str:
    driver = ledger.offload_context.driver_metadata
    try:
        location = locate(driver, tiered.config)
    except TieredStorageError:
        return driver.name or "unknown driver"
    return " ".join(one for one in (location.driver, location.bucket or location.path, location.endpoint) if one)


async def _open(
    store: str, topic: TopicName, ledger: LedgerInfo, tiered: TieredStorage, deadline: Deadline
) -> OffloadedCopy:
    context = ledger.offload_context
    problem = ""
    try:
        async with deadline.request():
            opened = await tiered.open(topic.managed_ledger_path.removeprefix(_ROOT), ledger.ledger_id, context)
            await opened.read(0, 0)
    except (TieredStorageError, WireError, OSError, TimeoutError) as error:
        problem = failure_of(error).text
    return OffloadedCopy(str(topic), ledger.ledger_id, store, context.bookkeeper_deleted, problem)
