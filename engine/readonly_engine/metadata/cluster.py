"""Topics, ledgers and bookies of a Pulsar cluster, read from its metadata store."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.metadata.errors import MetadataError, MetadataUnavailableError
from readonly_engine.metadata.racks import RACKS_PATH, decode_racks
from readonly_engine.metadata.topic_name import TopicName, decode_name, encode_name
from readonly_engine.wire.cursors import CursorState, decode_cursor
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
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

log = logging.getLogger(__name__)

_FIRST_LONG_ID = (1 << 31) - 1

_AT_A_TIME = 64
"""Nodes read concurrently."""

MAX_REMEMBERED_LEDGERS = 10_000
"""Ledgers whose metadata is kept for the time when the store does not answer."""


class StoredTopic(NamedTuple):
    """A topic in the metadata store.

    Attributes:
        created_ms: time of its creation; another time than before means that it was deleted and created again.
        info: its ledgers.
    """

    created_ms: int
    info: ManagedLedgerInfo


def ledger_path(root: str, ledger_id: int) -> str:
    """Return a ledger's znode under the hierarchical ledger managers.

    As StringUtils.getHybridHierarchicalLedgerPath of BookKeeper 4.17 does.
    """
    if ledger_id < _FIRST_LONG_ID:
        digits = f"{ledger_id:010d}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


class TopicFollower(Protocol):
    """Follows a topic's list of ledgers. Its methods are the callbacks: a bound method is as large as the rest of a watch.

    Attributes:
        topic: the topic.
    """

    topic: TopicName

    def topic_changed(self, info: ManagedLedgerInfo | None) -> None:
        """Handle the list; None while the topic does not exist, and once when it was created again meanwhile."""


class LedgerFollower(Protocol):
    """Follows the metadata of ledgers."""

    def ledger_changed(self, ledger_id: int, metadata: LedgerMetadata | None) -> None:
        """Handle a ledger's metadata; None once it is deleted."""


class _TopicChanges:
    """Decodes the values of a topic's node."""

    __slots__ = ("_created_ms", "_follower", "_origin")

    def __init__(self, follower: TopicFollower) -> None:
        self._follower = follower
        self._created_ms: int | None = None  # None without the node
        self._origin = 0

    def __call__(self, node: Versioned | None) -> None:
        before, origin = self._created_ms, self._origin
        if node is None:
            self._created_ms = None
        else:
            self._created_ms, self._origin = node.created_ms, node.origin
            if before is not None and origin == node.origin and before != node.created_ms:
                self._follower.topic_changed(None)
        try:
            info = None if node is None else decode_managed_ledger(node.value)
        except WireError as error:
            log.error("cannot follow the topic's node: topic=%s error=%s", self._follower.topic, error)  # noqa: TRY400 - the text is enough
            return
        self._follower.topic_changed(info)


class _LedgerChanges:
    """Decodes the values of a ledger's node."""

    __slots__ = ("_follower", "_ledger_id")

    def __init__(self, ledger_id: int, follower: LedgerFollower) -> None:
        self._ledger_id = ledger_id
        self._follower = follower

    def __call__(self, node: Versioned | None) -> None:
        try:
            metadata = None if node is None else decode_ledger_metadata(node.value)
        except WireError as error:
            log.error("cannot follow the ledger's node: ledger=%d error=%s", self._ledger_id, error)  # noqa: TRY400
            return
        self._follower.ledger_changed(self._ledger_id, metadata)


class ClusterMetadata:
    """Read access to one cluster's metadata.

    Args:
        store: the brokers' metadata store.
        ledgers_root: BookKeeper's root, from metadataServiceUri; Pulsar's is /ledgers.
        bookkeeper: the bookies' metadata store; None for the same.
    """

    def __init__(
        self, store: MetadataStore, ledgers_root: str = "/ledgers", bookkeeper: MetadataStore | None = None
    ) -> None:
        self._store = store
        self._bookkeeper = bookkeeper or store
        self._root = ledgers_root
        self._addresses: dict[str, tuple[str, int]] = {}
        self._ledgers: OrderedDict[int, LedgerMetadata] = OrderedDict()

    def watch_topic(self, follower: TopicFollower) -> Watch:
        """Watch a topic's list of ledgers."""
        return self._store.watch(follower.topic.managed_ledger_path, _TopicChanges(follower))

    def watch_ledger(self, ledger_id: int, follower: LedgerFollower) -> Watch:
        """Watch a ledger's metadata."""
        return self._bookkeeper.watch(ledger_path(self._root, ledger_id), _LedgerChanges(ledger_id, follower))

    def watch_racks(self, changed: Callable[[dict[str, str]], None]) -> Watch:
        """Watch the racks of bookies: bookie id to `/rack` or `/zone/rack`, for each bookie that has one."""

        def on_change(node: Versioned | None) -> None:
            try:
                changed({} if node is None else decode_racks(node.value))
            except MetadataError as error:
                log.error("cannot follow the racks of bookies: error=%s", error)  # noqa: TRY400 - the text is enough

        return self._store.watch(RACKS_PATH, on_change)

    async def ledger(self, ledger_id: int) -> LedgerMetadata | None:
        """Return a ledger's metadata, None if it was deleted. While the store does not answer, return the last known metadata.

        Raises:
            MetadataUnavailableError: the store does not answer, and this ledger was not read before.
            WireError: the metadata is damaged, or of an unknown format.
        """
        known = self._ledgers.get(ledger_id)
        if known is not None and not self._bookkeeper.connected:
            return known
        try:
            node = await self._bookkeeper.get(ledger_path(self._root, ledger_id))
        except MetadataUnavailableError:
            if known is None:
                raise
            return known
        if node is None:
            self._ledgers.pop(ledger_id, None)
            return None
        metadata = decode_ledger_metadata(node.value)
        self._ledgers[ledger_id] = metadata
        self._ledgers.move_to_end(ledger_id)
        if len(self._ledgers) > MAX_REMEMBERED_LEDGERS:
            self._ledgers.popitem(last=False)
        return metadata

    async def ledger_created_ms(self, ledger_id: int) -> int | None:
        """Return when a ledger was created, by the store's clock, ms since the epoch.

        It is None for a ledger that was deleted, or copied from another store.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        node = await self._bookkeeper.get(ledger_path(self._root, ledger_id))
        return None if node is None or node.origin else node.created_ms

    async def bookie_address(self, bookie_id: str) -> tuple[str, int]:
        """Return a bookie's host and port. A read-only bookie is registered under another node and still serves reads.

        A bookie id need not be HOST:PORT: the registration has the address (DefaultBookieAddressResolver). While the store does
        not answer, return the last known address.

        Raises:
            MetadataError: the bookie is not registered, and its id is not an address.
        """
        known = self._addresses.get(bookie_id)
        if known is not None and not self._bookkeeper.connected:
            return known
        try:
            address = await self._registered_address(bookie_id)
        except MetadataUnavailableError:
            if known is None:
                raise
            return known
        self._addresses[bookie_id] = address
        return address

    async def _registered_address(self, bookie_id: str) -> tuple[str, int]:
        for folder in ("available", "available/readonly"):
            node = await self._bookkeeper.get(f"{self._root}/{folder}/{bookie_id}")
            if node is not None and node.value:
                address = decode_bookie_address(node.value)
                if address is not None:
                    return address
        host, _, port = bookie_id.rpartition(":")
        if not host or not port.isdigit():
            raise MetadataError(f"bookie {bookie_id} is not registered, and its id is not HOST:PORT")
        return host, int(port)

    async def bookies(self) -> dict[str, bool]:
        """Return the registered bookies: id, and whether the bookie is read-only.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        readonly = await self._bookkeeper.children(f"{self._root}/available/readonly") or ()
        writable = await self._bookkeeper.children(f"{self._root}/available") or ()
        return dict.fromkeys(sorted(readonly), True) | dict.fromkeys(sorted(set(writable) - {"readonly"}), False)

    async def known_bookies(self) -> frozenset[str]:
        """Return the ids of all bookies that ever served the cluster and were not decommissioned: those with a cookie.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        return await self._bookkeeper.children(f"{self._root}/cookies") or frozenset()

    async def bookkeeper_id(self) -> str:
        """Return the id of the BookKeeper cluster; empty if it has none.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        node = await self._bookkeeper.get(f"{self._root}/INSTANCEID")
        return "" if node is None else node.value.decode(errors="replace")

    # Topics and subscriptions

    async def topic(self, topic: TopicName) -> ManagedLedgerInfo | None:
        """Return a topic's list of ledgers now, None if the topic does not exist.

        Raises:
            MetadataUnavailableError: the store does not answer.
            WireError: the list is damaged, or of an unknown format.
        """
        found = await self.stored_topic(topic)
        return None if found is None else found.info

    async def stored_topic(self, topic: TopicName) -> StoredTopic | None:
        """Return a topic as the store has it now, None if the topic does not exist.

        Raises:
            MetadataUnavailableError: the store does not answer.
            WireError: its list of ledgers is damaged, or of an unknown format.
        """
        node = await self._store.get(topic.managed_ledger_path)
        return None if node is None else StoredTopic(node.created_ms, decode_managed_ledger(node.value))

    async def partitions(self, topic: TopicName) -> int:
        """Return the number of a topic's partitions; 0 for a topic that is not partitioned or does not exist.

        Raises:
            MetadataUnavailableError: the store does not answer.
            MetadataError: the node is damaged.
        """
        node = await self._store.get(topic.partitions_path)
        if node is None:
            return 0
        try:
            return int(json.loads(node.value)["partitions"])
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataError(f"{topic.partitions_path} is damaged: it has no number of partitions") from error

    async def namespaces(self) -> list[str]:
        """Return all namespaces, as TENANT/NAMESPACE.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        tenants = sorted(await self._store.children("/admin/policies") or ())
        return [
            f"{tenant}/{namespace}"
            for tenant in tenants
            for namespace in sorted(await self._store.children(f"/admin/policies/{tenant}") or ())
        ]

    async def topics(self, tenant: str, namespace: str) -> list[TopicName]:
        """Return the persistent topics of a namespace, with the partitions of partitioned topics.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        names = await self._store.children(f"/managed-ledgers/{tenant}/{namespace}/persistent")
        return [TopicName("persistent", tenant, namespace, decode_name(name)) for name in sorted(names or ())]

    async def partitioned_topics(self, tenant: str, namespace: str) -> dict[TopicName, int]:
        """Return the persistent partitioned topics of a namespace, each with its number of partitions.

        Raises:
            MetadataUnavailableError: the store does not answer.
            MetadataError: a node is damaged.
        """
        names = await self._store.children(f"/admin/partitioned-topics/{tenant}/{namespace}/persistent")
        topics = [TopicName("persistent", tenant, namespace, decode_name(name)) for name in sorted(names or ())]
        found: dict[TopicName, int] = {}
        for first in range(0, len(topics), _AT_A_TIME):
            some = topics[first : first + _AT_A_TIME]
            found |= zip(some, await asyncio.gather(*map(self.partitions, some)), strict=True)
        return found

    async def subscriptions(self, topic: TopicName) -> list[str]:
        """Return the names of a topic's durable subscriptions, with Pulsar's own.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        names = await self._store.children(topic.managed_ledger_path)
        return sorted(decode_name(name) for name in names or ())

    async def has_subscription(self, topic: TopicName, subscription: str) -> bool:
        """Return whether a topic has a durable subscription of a name.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        return await self._store.get(f"{topic.managed_ledger_path}/{encode_name(subscription)}") is not None

    async def cursor(self, topic: TopicName, subscription: str) -> CursorState | None:
        """Return the state in a subscription's znode, None if there is none. The state may point to a cursor ledger.

        Raises:
            MetadataUnavailableError: the store does not answer.
            WireError: the node is damaged, or of an unknown format.
        """
        node = await self._store.get(f"{topic.managed_ledger_path}/{encode_name(subscription)}")
        return None if node is None else decode_cursor(node.value)
