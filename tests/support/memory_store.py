"""A metadata store in memory, for what reads and writes single nodes. Watches are called at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.store import Versioned, check_own

if TYPE_CHECKING:
    from collections.abc import Callable


class MemoryStore:
    """Nodes by their paths.

    Attributes:
        nodes: value and version of each node.
        before_write: called before each conditional write, as for a write of another broker.
        silent: whether the store does not answer.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Versioned] = {}
        self.before_write: Callable[[], None] = lambda: None
        self.silent = False
        self._watches: dict[str, list[Callable[[Versioned | None], None]]] = {}

    def _check(self) -> None:
        if self.silent:
            raise MetadataUnavailableError("the store does not answer")

    def write(self, path: str, value: bytes | None) -> None:
        """Write or remove a node, as another process."""
        before = self.nodes.pop(path, None)
        if value is not None:
            self.nodes[path] = Versioned(value, 0 if before is None else before.version + 1)
        for watch in self._watches.get(path, ()):
            watch(self.nodes.get(path))

    async def get(self, path: str) -> Versioned | None:
        self._check()
        return self.nodes.get(path)

    async def children(self, path: str) -> frozenset[str] | None:
        self._check()
        below = {name.removeprefix(f"{path}/").partition("/")[0] for name in self.nodes if name.startswith(f"{path}/")}
        return frozenset(below) if below or path in self.nodes else None

    async def put_if(self, path: str, value: bytes, version: int | None) -> int | None:
        check_own(path)
        self._check()
        self.before_write()
        present = self.nodes.get(path)
        if (None if present is None else present.version) != version:
            return None
        self.write(path, value)
        return self.nodes[path].version

    async def remove(self, path: str) -> None:
        check_own(path)
        self._check()
        self.write(path, None)

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> _Watch:
        self._watches.setdefault(path, []).append(changed)
        changed(self.nodes.get(path))
        return _Watch(path, self._watches[path], changed)


class _Watch:
    def __init__(
        self,
        path: str,
        watches: list[Callable[[Versioned | None], None]],
        changed: Callable[[Versioned | None], None],
    ) -> None:
        self.path = path
        self._watches, self._changed = watches, changed

    def stop(self) -> None:
        self._watches.remove(self._changed)
