"""Watches by the records that they watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_engine.metadata.oxia.keys import parent_of
from readonly_engine.metadata.watches import Refreshes
from readonly_engine.wire.oxia_pb2 import NotificationType

if TYPE_CHECKING:
    from readonly_engine.metadata.watches import NodeWatch
    from readonly_engine.wire.oxia_pb2 import NotificationBatch


class WatchIndex:
    """Wakes the watches of changed records."""

    def __init__(self) -> None:
        self._values: dict[str, list[NodeWatch[Any]]] = {}
        self._children: dict[str, list[NodeWatch[Any]]] = {}
        self._refreshes = Refreshes()

    def add(self, path: str, watch: NodeWatch[Any]) -> None:
        """Wake a watch by changes of a record."""
        self._values.setdefault(path, []).append(watch)

    def add_children(self, path: str, watch: NodeWatch[Any]) -> None:
        """Wake a watch when a child of a record is created or deleted."""
        self._children.setdefault(path, []).append(watch)

    def remove(self, path: str, watch: NodeWatch[Any]) -> None:
        """Forget a watch made by `add`."""
        _remove(self._values, path, watch)

    def remove_children(self, path: str, watch: NodeWatch[Any]) -> None:
        """Forget a watch made by `add_children`."""
        _remove(self._children, path, watch)

    def notify(self, batch: NotificationBatch) -> None:
        """Wake the watches of a batch of changes."""
        for key, change in batch.notifications.items():
            if change.type == NotificationType.KEY_RANGE_DELETED:
                self.refresh_all()
                continue
            for watch in self._values.get(key, ()):
                watch.refresh()
            if change.type != NotificationType.KEY_MODIFIED:
                for watch in self._children.get(parent_of(key), ()):
                    watch.refresh()

    def refresh_all(self) -> None:
        """Wake all watches, by turns."""
        self._refreshes.begin(self.all)

    def stop_all(self) -> None:
        """Stop all watches."""
        for watch in self.all:
            watch.stop()

    @property
    def all(self) -> list[NodeWatch[Any]]:
        """All watches."""
        return [watch for watches in (*self._values.values(), *self._children.values()) for watch in watches]


def _remove(index: dict[str, list[NodeWatch[Any]]], path: str, watch: NodeWatch[Any]) -> None:
    watches = index.get(path)
    if watches is not None and watch in watches:
        watches.remove(watch)
        if not watches:
            del index[path]
