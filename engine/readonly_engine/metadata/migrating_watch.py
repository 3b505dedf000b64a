"""A watch that continues in another store after a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.store import MetadataStore, Watch

T = TypeVar("T")


class MigratingWatch(Generic[T]):
    """Watches one node in one store after another.

    Args:
        store: the first store.
        open_in: opens the watch in a store, with a callback.
        same: returns whether two values of different stores are the same.
        changed: called with each value, but not again with the same one after a change of the store.
        stopped: called when the watch stops.
    """

    def __init__(
        self,
        store: MetadataStore,
        open_in: Callable[[MetadataStore, Callable[[T], None]], Watch],
        same: Callable[[T, T], bool],
        changed: Callable[[T], None],
        stopped: Callable[[MigratingWatch[T]], None],
    ) -> None:
        self._open_in = open_in
        self._same = same
        self._changed = changed
        self._stopped = stopped
        self._last: list[T] = []
        self._switched = False
        self._watch = open_in(store, self._on_change)

    def move(self, store: MetadataStore) -> None:
        """Go on in another store."""
        self._watch.stop()
        self._switched = bool(self._last)
        self._watch = self._open_in(store, self._on_change)

    def stop(self) -> None:
        """Stop the callbacks."""
        self._watch.stop()
        self._stopped(self)

    def _on_change(self, value: T) -> None:
        switched, self._switched = self._switched, False
        if switched and self._same(self._last[0], value):
            self._last = [value]
            return
        self._last = [value]
        self._changed(value)
