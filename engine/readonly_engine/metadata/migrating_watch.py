"""Watches that continue in another store after a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.store import MetadataStore, Versioned, Watch

T = TypeVar("T")


class MigratingWatch(Generic[T]):
    """Watches one node in one store after another, as the callback of its watch there.

    Args:
        store: the first store.
        path: the node.
        changed: called with each value, but not again with the same one after a change of the store.
        stopped: called when the watch stops.
    """

    __slots__ = ("_changed", "_last", "_notified", "_path", "_stopped", "_switched", "_watch")

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        changed: Callable[[T], None],
        stopped: Callable[[MigratingWatch[T]], None],
    ) -> None:
        self._path = path
        self._changed = changed
        self._stopped = stopped
        self._last: object = None  # of the last value, as `_compared`
        self._notified = self._switched = False
        self._watch = self._open(store)

    def _open(self, store: MetadataStore) -> Watch:
        """Watch the node in a store."""
        raise NotImplementedError

    def _compared(self, value: T) -> object:
        """Return what is the same for the same values of different stores."""
        return value

    def move(self, store: MetadataStore) -> None:
        """Go on in another store."""
        self._watch.stop()
        self._switched = self._notified
        self._watch = self._open(store)

    def stop(self) -> None:
        """Stop the callbacks."""
        self._watch.stop()
        self._stopped(self)

    def __call__(self, value: T) -> None:
        """Handle a value of the store in use."""
        switched, self._switched = self._switched, False
        compared = self._compared(value)
        known = switched and compared == self._last
        self._last, self._notified = compared, True
        if not known:
            self._changed(value)


class MigratingNames(MigratingWatch["frozenset[str]"]):
    """Watches the names of a node's children."""

    __slots__ = ()

    def _open(self, store: MetadataStore) -> Watch:
        return store.watch_children(self._path, self)


class MigratingValue(MigratingWatch["Versioned | None"]):
    """Watches a node's value. Those of the second store have another origin."""

    __slots__ = ("_source",)

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        changed: Callable[[Versioned | None], None],
        stopped: Callable[[MigratingWatch[Versioned | None]], None],
        source: MetadataStore,
    ) -> None:
        self._source = source
        super().__init__(store, path, changed, stopped)

    def _open(self, store: MetadataStore) -> Watch:
        return store.watch(self._path, self if store is self._source else self._on_copy)

    def _on_copy(self, found: Versioned | None) -> None:
        self(None if found is None else found._replace(origin=1))

    def _compared(self, value: Versioned | None) -> object:
        # Smaller than the value: there are tens of thousands of watches.
        return None if value is None else hash(value.value)
