"""What a subscription needs of the topic that it reads, be it the topic itself or what compaction has left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch


class TopicView(Protocol):
    """See TopicLog."""

    @property
    def topic(self) -> TopicName:
        """The topic."""

    @property
    def chain(self) -> LedgerChain:
        """What may be read, and in which order."""

    @property
    def latest_batch(self) -> TailBatch | None:
        """What the listeners were told of last, where all of them can share it."""

    def await_notification(self, position: Position) -> bool:
        """Whether the listeners will be called for an entry that is readable now, so that nobody needs to read it alone."""

    def listen(self, listener: Callable[[], None], *, latency_tolerant: bool = False) -> None:
        """Call when there may be more to read; where all who listen are patient, a little later while entries flow."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call no more."""

    def confirm(self, position: Position) -> None:
        """Take the owner's word that an entry is confirmed."""

    async def reload(self) -> None:
        """Read the topic's list of ledgers now.

        Raises:
            MetadataError: the metadata store does not answer.
        """

    def cached(self, first: Position, count: int) -> list[TopicEntry]:
        """The entries from a position on that are at hand: at most `count`, without a gap."""

    async def read(self, first: Position, count: int) -> list[TopicEntry]:
        """Entries from a position on, in order: at least one where there is one to read, at most `count`.

        Raises:
            BookKeeperError: they cannot be read now.
        """
