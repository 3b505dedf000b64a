"""Interface of a topic for its subscriptions, with or without compacted reads."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch


class Follow(IntEnum):
    """Part of a topic's tail that a listener needs. The most that any of them needs is followed."""

    LEDGERS = 0
    """Only the topic's list of ledgers: another broker reports which entries are readable."""
    END = 1
    """The last readable position, too, without the entries."""
    ENTRIES = 2
    """New entries, too: they are in the cache when the listener is called."""


class TopicView(Protocol):
    """See TopicLog."""

    @property
    def topic(self) -> TopicName:
        """The topic."""

    @property
    def chain(self) -> LedgerChain:
        """The readable entries, in order."""

    @property
    def latest_batch(self) -> TailBatch | None:
        """The batch of the listeners' last call, if all of them can share it."""

    @property
    def notifying(self) -> bool:
        """Whether the listeners are being called, so that what a subscription sends now is new."""

    def defer_to_notification(self, position: Position) -> bool:
        """Whether the listeners will be called for an entry that is readable now, so that one read serves all of them."""

    def listen(
        self, listener: Callable[[], None], *, latency_tolerant: bool = False, follow: Follow = Follow.ENTRIES
    ) -> None:
        """Call `listener` when more may be readable; with some delay while entries arrive, if all are latency-tolerant."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""

    def confirm(self, position: Position, *, counted: bool = True) -> None:
        """Confirm an entry, according to the owner broker, or if it is not known that the owner counts it, another broker."""

    async def reload(self) -> None:
        """Read the topic's list of ledgers now.

        Raises:
            MetadataError: the metadata store does not answer.
        """

    def cached(self, first: Position, count: int) -> list[TopicEntry]:
        """Return the cached entries from a position on: at most `count`, without a gap."""

    async def read(self, first: Position, count: int, *, exact: bool = False) -> list[TopicEntry]:
        """Read entries from a position on, in order: at least one if one is readable, at most `count`; no later ones if `exact`.

        Raises:
            BookKeeperError: they cannot be read now.
        """
