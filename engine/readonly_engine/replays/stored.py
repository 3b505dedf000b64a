"""The replays of a pool in the metadata store."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from readonly_engine.broker.pool.membership import POOLS_PATH
from readonly_engine.broker.replay.node_records import remove_tree
from readonly_engine.broker.replay.record import (
    ReplayRecord,
    ReplayRecordError,
    decode_record,
    record_path,
    replays_folder,
)
from readonly_engine.broker.replay.shared_record import change_record
from readonly_engine.tool.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.topic.replay.clock import ReplayClock


class StoredReplay(NamedTuple):
    """A replay.

    Attributes:
        name: its window: the first and the last publish time.
        folder: its path.
        record: its record.
    """

    name: str
    folder: str
    record: ReplayRecord

    async def change(self, store: MetadataStore, change: Callable[[ReplayClock], ReplayClock]) -> StoredReplay:
        """Change the clock by compare-and-set; return the replay as it is then.

        Raises:
            ToolError: it was deleted meanwhile, or its record is damaged.
            MetadataUnavailableError: the store does not answer.
        """

        def changed(found: ReplayRecord | None) -> ReplayRecord:
            if found is None:
                raise ToolError(f"the replay {self.name} was deleted meanwhile")
            return found._replace(clock=change(found.clock))

        try:
            return self._replace(record=await change_record(store, self.folder, changed))
        except ReplayRecordError as error:
            raise ToolError(str(error)) from error


def _pool_folder(pool: str) -> str:
    return f"{POOLS_PATH}/{quote(pool, safe='')}"


async def replays_of(store: MetadataStore, pool: str) -> list[StoredReplay]:
    """Return the replays of a pool, the earliest window first.

    Raises:
        ToolError: it has none, or a record is damaged.
        MetadataUnavailableError: the store does not answer.
    """
    folder, found = replays_folder(_pool_folder(pool)), []
    for name in sorted(await store.children(folder) or ()):
        node = await store.get(record_path(f"{folder}/{name}"))
        if node is not None:
            try:
                found.append(StoredReplay(unquote(name), f"{folder}/{name}", decode_record(node.value)))
            except ReplayRecordError as error:
                raise ToolError(f"{unquote(name)}: {error}") from error
    if not found:
        raise ToolError(
            f"pool {pool} has no replay in this metadata store; give the --pool of brokers with --replay-from"
        )
    return found


async def find(store: MetadataStore, pool: str, name: str | None) -> StoredReplay:
    """Return a replay of a pool: that of a name, or the only one.

    Raises:
        ToolError: there is none, or there are several.
        MetadataUnavailableError: the store does not answer.
    """
    found = [one for one in await replays_of(store, pool) if name in {None, one.name}]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.name for one in found or await replays_of(store, pool))
    if found:
        raise ToolError(f"pool {pool} has several replays; give --replay with one of {names}")
    raise ToolError(f"pool {pool} has no replay {name}; there are {names}")


async def delete(store: MetadataStore, pool: str, replay: StoredReplay) -> None:
    """Delete a replay with all its cursors.

    Raises:
        ToolError: the pool has live brokers, which may be those of the replay.
        MetadataUnavailableError: the store does not answer.
    """
    if await store.children(f"{_pool_folder(pool)}/brokers"):
        raise ToolError(f"pool {pool} has live brokers: end them first, they would write the cursors again")
    await remove_tree(store, replay.folder)
