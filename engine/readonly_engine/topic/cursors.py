"""A subscription's cursor from storage: from its znode, or the last entry of its cursor ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.wire.cursors import NO_LEDGER, CursorState, decode_cursor_entry

if TYPE_CHECKING:
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName


async def read_cursor(
    cluster: ClusterMetadata, pool: BookiePool, topic: TopicName, subscription: str
) -> CursorState | None:
    """Read a subscription's cursor as its owner last wrote it; return None if the subscription does not exist.

    managedLedgerDefaultMarkDeleteRateLimit limits the owner's writes, so its cursor may be further. The last entry of the
    cursor ledger counts even beyond the LAC, because a recovery of the ledger would confirm it.

    Raises:
        MetadataError: the metadata store does not answer.
        BookKeeperError: the bookies of the cursor ledger do not answer.
        WireError: the stored cursor is damaged, or has an unknown format.
    """
    state = await cluster.cursor(topic, subscription)
    if state is None or state.cursor_ledger == NO_LEDGER:
        return state
    metadata = await cluster.ledger(state.cursor_ledger)
    if metadata is None:
        return state
    reader = LedgerReader(state.cursor_ledger, metadata, pool)
    last = metadata.last_entry_id if metadata.closed else (await reader.read_lac()).last_entry
    if last < 0:
        return state
    (entry,) = await reader.read(last, last)
    found = decode_cursor_entry(entry.payload)
    return CursorState(
        mark_delete=found.mark_delete,
        holes=found.holes,
        batches=found.batches,
        properties=found.properties,
        cursor_properties=state.cursor_properties,
        cursor_ledger=state.cursor_ledger,
        last_active=state.last_active,
    )
