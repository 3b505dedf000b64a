"""Topics, ledgers and bookies of a Pulsar cluster, as its metadata store has them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_engine.metadata.errors import MetadataError
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.ledgers import (
    LedgerMetadata,
    decode_bookie_address,
    decode_ledger_metadata,
    decode_managed_ledger,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.store import MetadataStore, Versioned, Watch
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

log = logging.getLogger(__name__)

_FIRST_LONG_ID = (1 << 31) - 1


def ledger_path(root: str, ledger_id: int) -> str:
    """A ledger's znode under the hierarchical ledger managers (StringUtils.getHybridHierarchicalLedgerPath, BookKeeper 4.17)."""
    if ledger_id < _FIRST_LONG_ID:
        digits = f"{ledger_id:010d}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


class ClusterMetadata:
    """Read access to one cluster's metadata.

    Args:
        store: where the metadata is.
        ledgers_root: BookKeeper's part of it (metadataServiceUri names it; Pulsar's is /ledgers).
    """

    def __init__(self, store: MetadataStore, ledgers_root: str = "/ledgers") -> None:
        self._store = store
        self._root = ledgers_root

    def watch_topic(self, topic: TopicName, changed: Callable[[ManagedLedgerInfo | None], None]) -> Watch:
        """Follow a topic's list of ledgers; None while the topic does not exist."""
        path = topic.managed_ledger_path

        def on_change(node: Versioned | None) -> None:
            try:
                info = None if node is None else decode_managed_ledger(node.value)
            except WireError as error:
                log.error("%s cannot be followed: %s", path, error)  # noqa: TRY400 - the message says it all
                return
            changed(info)

        return self._store.watch(path, on_change)

    def watch_ledger(self, ledger_id: int, changed: Callable[[LedgerMetadata | None], None]) -> Watch:
        """Follow a ledger's metadata; None where it was deleted."""
        path = ledger_path(self._root, ledger_id)

        def on_change(node: Versioned | None) -> None:
            try:
                metadata = None if node is None else decode_ledger_metadata(node.value)
            except WireError as error:
                log.error("%s cannot be followed: %s", path, error)  # noqa: TRY400
                return
            changed(metadata)

        return self._store.watch(path, on_change)

    async def ledger(self, ledger_id: int) -> LedgerMetadata | None:
        """A ledger's metadata now, None where it was deleted.

        Raises:
            MetadataUnavailableError: the store does not answer.
            WireError: the metadata is damaged, or of a format that is not understood.
        """
        node = await self._store.get(ledger_path(self._root, ledger_id))
        return None if node is None else decode_ledger_metadata(node.value)

    async def bookie_address(self, bookie_id: str) -> tuple[str, int]:
        """Where a bookie listens. A read-only bookie is registered elsewhere and still serves reads.

        A bookie id need not be HOST:PORT: its registration says where it is (DefaultBookieAddressResolver).

        Raises:
            MetadataError: the bookie is not registered and its id is no address.
        """
        for folder in ("available", "available/readonly"):
            node = await self._store.get(f"{self._root}/{folder}/{bookie_id}")
            if node is not None and node.value:
                address = decode_bookie_address(node.value)
                if address is not None:
                    return address
        host, _, port = bookie_id.rpartition(":")
        if not host or not port.isdigit():
            raise MetadataError(f"bookie {bookie_id} is not registered, and its id is not HOST:PORT")
        return host, int(port)
