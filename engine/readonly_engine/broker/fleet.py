"""The brokers of a pool, known to each other through the metadata store, and which of them serves a topic."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from readonly_engine.metadata.errors import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from readonly_engine.metadata.store import MetadataStore, Watch
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

POOLS_PATH = "/pulsar-readonly/pools"


def choose_broker(topic: str, brokers: Iterable[str]) -> str | None:
    """The broker that serves a topic, the same whoever asks; None where there is none.

    Rendezvous hashing: when a broker comes or goes, only the topics that it gets or had change places.
    """
    return max(
        brokers, key=lambda broker: (hashlib.blake2b(f"{broker} {topic}".encode()).digest(), broker), default=None
    )


class Fleet:
    """Membership of this broker in its pool.

    A member is an ephemeral node named by the URL that clients are sent to, so that its name alone says all that is needed.

    Args:
        store: where the pool is registered.
        pool: the pool's name.
        url: where clients reach this broker.
    """

    def __init__(self, store: MetadataStore, pool: str, url: str) -> None:
        self.url = url
        self._store = store
        self._folder = f"{POOLS_PATH}/{quote(pool, safe='')}/brokers"
        self._watch: Watch | None = None
        self._changed: Callable[[], None] = lambda: None
        self._seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.members: frozenset[str] = frozenset()

    async def join(self, changed: Callable[[], None]) -> None:
        """Become a member, and call back whenever a broker comes or goes.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        self._changed = changed
        await self._store.register(self._node(), json.dumps({"url": self.url}).encode())
        self._watch = self._store.watch_children(self._folder, self._members_changed)
        try:
            await asyncio.wait_for(asyncio.shield(self._seen), 10)
        except TimeoutError as error:
            raise MetadataUnavailableError(f"the brokers of {self._folder} are not known after 10 s") from error

    async def leave(self) -> None:
        """Be a member no more: the others take over this broker's topics."""
        if self._watch is not None:
            self._watch.stop()
        try:
            await self._store.unregister(self._node())
        except MetadataUnavailableError as error:
            log.warning("could not leave the pool in order: %s", error)
        self.members -= {self.url}

    @property
    def joined(self) -> bool:
        """Whether this broker is seen as a member."""
        return self.url in self.members

    def broker_of(self, topic: TopicName) -> str | None:
        """The URL of the broker that serves a topic."""
        return choose_broker(str(topic), self.members)

    def _node(self) -> str:
        return f"{self._folder}/{quote(self.url, safe='')}"

    def _members_changed(self, names: frozenset[str]) -> None:
        members = frozenset(map(unquote, names))
        if members != self.members:
            log.info("the pool's brokers are now %s", ", ".join(sorted(members)) or "none")
        self.members = members
        if not self._seen.done():
            self._seen.set_result(None)
        self._changed()
