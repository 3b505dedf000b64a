"""A watch that continues in another store after a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.store import Watch

T = TypeVar("T")


class MigratingWatch(Generic[T]):
    """Watches one node in the store in use. There are tens of thousands, so they share all but the node and the callback.

    Args:
        path: the node.
        changed: called with each value, and again with the last one after a change of the store.
        begin: watches a node in the store in use.
        stopped: called when the watch stops.
    """

    __slots__ = ("_begin", "_changed", "_stopped", "_watch")

    def __init__(
        self,
        path: str,
        changed: Callable[[T], None],
        begin: Callable[[str, Callable[[T], None]], Watch],
        stopped: Callable[[MigratingWatch[T]], None],
    ) -> None:
        self._changed = changed
        self._begin = begin
        self._stopped = stopped
        self._watch = begin(path, changed)

    @property
    def path(self) -> str:
        """The node."""
        return self._watch.path

    def move(self) -> None:
        """Go on in the store that is in use now."""
        self._watch.stop()
        self._watch = self._begin(self.path, self._changed)

    def stop(self) -> None:
        """Stop the callbacks."""
        self._watch.stop()
        self._stopped(self)
