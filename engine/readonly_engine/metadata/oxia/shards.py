"""Shards of a namespace: which shard has a key, and which server leads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import xxhash

from readonly_engine.metadata.errors import MetadataError
from readonly_engine.wire.oxia_pb2 import ShardKeyRouter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.wire.oxia_pb2 import ShardAssignments

MAX_SHARDS: Final = 4096
"""Largest number of shards of a namespace. A stream of notifications is open for each one."""

_HASH_MASK: Final = 0xFFFF_FFFF


def key_hash(key: str) -> int:
    """Return the hash that selects the shard of a key: the lower half of XXH3 (Oxia's hash.Xxh332)."""
    return xxhash.xxh3_64_intdigest(key.encode()) & _HASH_MASK


class Shard(NamedTuple):
    """One shard.

    Attributes:
        number: its number.
        leader: HOST:PORT of the server that leads it; empty during an election.
        first: smallest hash of its keys.
        last: largest hash of its keys.
    """

    number: int
    leader: str
    first: int
    last: int


class ShardMap:
    """The shards of a namespace at one time.

    Args:
        shards: all shards.

    Attributes:
        shards: the shards by number.
    """

    def __init__(self, shards: Mapping[int, Shard]) -> None:
        self.shards = shards

    @classmethod
    def decode(cls, found: ShardAssignments, namespace: str) -> ShardMap:
        """Decode an answer of a server.

        Raises:
            MetadataError: the namespace is missing, has no shard or too many, or places keys in an unknown way.
        """
        assigned = found.namespaces.get(namespace)
        if assigned is None:
            raise MetadataError(f"Oxia has no namespace {namespace!r}")
        if assigned.shard_key_router != ShardKeyRouter.XXHASH3:
            raise MetadataError(f"Oxia places keys of namespace {namespace!r} by another hash than XXHASH3")
        if not 0 < len(assigned.assignments) <= MAX_SHARDS:
            raise MetadataError(
                f"Oxia's namespace {namespace!r} has {len(assigned.assignments)} shards, expected 1 to {MAX_SHARDS}"
            )
        return cls(
            {
                one.shard: Shard(one.shard, one.leader, one.int32_hash_range.min_hash, one.int32_hash_range.max_hash)
                for one in assigned.assignments
            }
        )

    def of(self, key: str) -> Shard | None:
        """Return the shard of a key; None while no shard has it."""
        hashed = key_hash(key)
        return next((shard for shard in self.shards.values() if shard.first <= hashed <= shard.last), None)
