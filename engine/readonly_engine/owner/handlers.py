"""Routes from the commands of one owner connection to consumers, producers and topic-list watchers. Pure."""

from __future__ import annotations

from typing import Protocol

from readonly_engine.wire.pulsar_pb2 import BaseCommand


class ConnectionHandler(Protocol):
    """A consumer, producer or watcher that has an id on a connection."""

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle a command of the owner for this id."""

    def on_connection_lost(self) -> None:
        """Handle the end of the connection."""


class ConnectionHandlers:
    """The handlers of one connection, by kind and id."""

    def __init__(self) -> None:
        self._consumers: dict[int, ConnectionHandler] = {}
        self._producers: dict[int, ConnectionHandler] = {}
        self._watchers: dict[int, ConnectionHandler] = {}
        self._last_consumer = 0
        self._last_watcher = 0

    def __bool__(self) -> bool:
        """Return whether there is any handler."""
        return bool(self._consumers or self._producers or self._watchers)

    def add_consumer(self, handler: ConnectionHandler) -> int:
        """Add a consumer, and return its new id. Ids are not reused."""
        self._last_consumer += 1
        self._consumers[self._last_consumer] = handler
        return self._last_consumer

    def has_consumer(self, consumer_id: int) -> bool:
        """Return whether a consumer has the id: neither removed, nor lost with the connection."""
        return consumer_id in self._consumers

    def remove_consumer(self, consumer_id: int) -> None:
        """Remove a consumer, if it is present."""
        self._consumers.pop(consumer_id, None)

    def add_producer(self, producer_id: int, handler: ConnectionHandler) -> None:
        """Add a producer under the id that its client chose."""
        self._producers[producer_id] = handler

    def remove_producer(self, producer_id: int, handler: ConnectionHandler) -> None:
        """Remove a producer, unless another has taken its id."""
        if self._producers.get(producer_id) is handler:
            del self._producers[producer_id]

    def add_watcher(self, handler: ConnectionHandler) -> int:
        """Add a topic-list watcher, and return its new id."""
        self._last_watcher += 1
        self._watchers[self._last_watcher] = handler
        return self._last_watcher

    def remove_watcher(self, watcher_id: int) -> None:
        """Remove a topic-list watcher, if it is present."""
        self._watchers.pop(watcher_id, None)

    def deliver_message(self, command: BaseCommand, payload: bytes) -> None:
        """Pass a MESSAGE to the handler of its consumer, if there is one."""
        handler = self._consumers.get(command.message.consumer_id)
        if handler is not None:
            handler.on_command(command, payload)

    def deliver(self, command: BaseCommand, payload: bytes) -> bool:
        """Pass a command to the handler of its id, if there is one. Return False for a type that has no handlers."""
        kind = command.type
        if kind == BaseCommand.MESSAGE:
            self.deliver_message(command, payload)
            return True
        if kind == BaseCommand.CLOSE_CONSUMER:
            handler = self._consumers.get(command.close_consumer.consumer_id)
        elif kind == BaseCommand.ACTIVE_CONSUMER_CHANGE:
            handler = self._consumers.get(command.active_consumer_change.consumer_id)
        elif kind == BaseCommand.REACHED_END_OF_TOPIC:
            handler = self._consumers.get(command.reached_end_of_topic.consumer_id)
        elif kind == BaseCommand.WATCH_TOPIC_UPDATE:
            handler = self._watchers.get(command.watch_topic_update.watcher_id)
        elif kind == BaseCommand.SEND_RECEIPT:
            handler = self._producers.get(command.send_receipt.producer_id)
        elif kind == BaseCommand.SEND_ERROR:
            handler = self._producers.get(command.send_error.producer_id)
        elif kind == BaseCommand.CLOSE_PRODUCER:
            handler = self._producers.get(command.close_producer.producer_id)
        elif kind == BaseCommand.TOPIC_MIGRATED:
            migrated = command.topic_migrated.resource_id
            handler = (
                self._consumers.get(migrated) if command.topic_migrated.resource_type else self._producers.get(migrated)
            )
        else:
            return False
        if handler is not None:
            handler.on_command(command, payload)
        return True

    def take_all(self) -> list[ConnectionHandler]:
        """Remove every handler, and return them."""
        handlers = [*self._consumers.values(), *self._producers.values(), *self._watchers.values()]
        self._watchers.clear()
        self._consumers.clear()
        self._producers.clear()
        return handlers
