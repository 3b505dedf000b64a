"""Topic-list watchers (PIP-145), relayed to the source cluster: a client with a pattern is notified of new topics at once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from readonly_engine.background import ends
from readonly_engine.broker.consumer.client_link import ClientLink
from readonly_engine.owner.errors import OwnerRefusedError, RelayError
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)

if TYPE_CHECKING:
    from readonly_engine.owner.connection import OwnerConnection

log = logging.getLogger(__name__)

BACKOFF_S = (0.1, 5.0)


class WatcherLink(ClientLink, Protocol):
    """A client's connection that has topic-list watchers."""

    def drop_watcher(self, watcher: TopicWatcher) -> None:
        """Remove a watcher that could not be created."""


class TopicWatcher:
    """A client's watcher, relayed to any broker of the source cluster.

    When the connection to that broker is lost, the watcher is created again, and the client gets the difference as an update. For
    that the watcher keeps the topics that the client knows.

    Args:
        client: the client's connection.
        watch: the client's WATCH_TOPIC_LIST.

    Attributes:
        watcher_id: the client's id of the watcher.
    """

    def __init__(self, client: WatcherLink, watch: CommandWatchTopicList) -> None:
        self.watcher_id = watch.watcher_id
        self._client = client
        self._watch = watch
        self._owner: OwnerConnection | None = None
        self._owner_id = 0
        self._topics: set[str] = set()
        self._closed = False
        self._recreating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create the watcher, and answer the client."""
        try:
            found = await self._create()
        except RelayError as error:
            self._client.drop_watcher(self)
            self._client.refuse(self._watch.request_id, error.code, str(error))
            return
        self._topics = set(found.topics)
        found.watcher_id, found.request_id = self.watcher_id, self._watch.request_id
        if found.topics_hash == self._watch.topics_hash:
            del found.topics[:]  # the client has the same topics
        self._client.send(
            encode_command(BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST_SUCCESS, watch_topic_list_success=found))
        )

    def close(self) -> None:
        """Close the watcher, also on the broker of the source cluster."""
        self._closed = True
        if self._recreating is not None:
            self._recreating.cancel()
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.remove_watcher(self._owner_id)
            close = CommandWatchTopicListClose(watcher_id=self._owner_id)
            owner.send_request(
                BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST_CLOSE, watch_topic_list_close=close), lambda _: None
            )

    # ConnectionHandler

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """Relay an update of topics to the client."""
        del payload
        update = command.watch_topic_update
        self._topics.update(update.new_topics)
        self._topics.difference_update(update.deleted_topics)
        update.watcher_id = self.watcher_id
        self._client.send(encode_command(command))

    def on_connection_lost(self) -> None:
        """Create the watcher again after the loss of its connection."""
        self._owner = None
        if not self._closed and self._recreating is None:
            self._recreating = self._client.services.spawn(self._recreate())
            self._recreating.add_done_callback(self._recreate_done)

    @ends("_client.abort")
    def _recreate_done(self, _task: asyncio.Task[None]) -> None:
        self._recreating = None
        if self._owner is None and not self._closed:
            self.on_connection_lost()

    async def _recreate(self) -> None:
        pause = BACKOFF_S[0]
        while True:
            await asyncio.sleep(pause)
            try:
                found = await self._create()
                break
            except RelayError as error:
                log.info(
                    "topic-list watcher not created, trying again: pattern=%s error=%s",
                    self._watch.topics_pattern,
                    error,
                )
                pause = min(2 * pause, BACKOFF_S[1])
        topics = set(found.topics)
        new, deleted = topics - self._topics, self._topics - topics
        self._topics = topics
        if new or deleted:
            update = CommandWatchTopicUpdate(
                watcher_id=self.watcher_id,
                new_topics=sorted(new),
                deleted_topics=sorted(deleted),
                topics_hash=found.topics_hash,
            )
            self._client.send(
                encode_command(BaseCommand(type=BaseCommand.WATCH_TOPIC_UPDATE, watch_topic_update=update))
            )

    async def _create(self) -> CommandWatchTopicListSuccess:
        """Create the watcher on a broker; return its answer, with all topics.

        Raises:
            RelayError: no broker answers, or it refuses the watcher.
        """
        owner = await self._client.services.owners.any_broker(self._client.identity)
        owner_id = owner.add_watcher(self)
        watch = CommandWatchTopicList()
        watch.CopyFrom(self._watch)
        watch.watcher_id = owner_id
        watch.topics_hash = ""  # with the client's hash the answer would leave out the topics if none has changed
        try:
            answer = await owner.request(BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST, watch_topic_list=watch))
        except BaseException:
            owner.remove_watcher(owner_id)
            raise
        if answer.type == BaseCommand.ERROR:
            owner.remove_watcher(owner_id)
            raise OwnerRefusedError(answer.error.error, answer.error.message)
        self._owner, self._owner_id = owner, owner_id
        if self._closed:
            self.close()
        return answer.watch_topic_list_success
