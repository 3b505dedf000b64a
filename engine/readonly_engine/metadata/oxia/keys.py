"""Keys of Oxia's records, which are paths as in ZooKeeper."""

from __future__ import annotations

from readonly_engine.metadata.store import OWN_ROOT, is_own


def partition_key(path: str) -> str | None:
    """Return the partition key of a record; None for a record that is placed by its path.

    A session is of one shard. So all records below OWN_ROOT have one partition key: one session keeps all of a broker's records.
    """
    return OWN_ROOT if is_own(path) or path == OWN_ROOT else None


def routing_key(path: str) -> str:
    """Return the key whose hash selects the shard of a record."""
    return partition_key(path) or path


def children_range(path: str) -> tuple[str, str]:
    """Return the first key of a record's children, and the key after the last one.

    Oxia orders keys by their number of slashes first, so these are the children without grandchildren (OxiaMetadataStore).
    """
    first = path if path.endswith("/") else f"{path}/"
    return first, f"{first}/"


def parent_of(path: str) -> str:
    """Return the path of a record's parent; empty for a record at the top."""
    return path.rpartition("/")[0]


def own_parents(path: str) -> list[str]:
    """Return the parents of an own record, OWN_ROOT first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]
