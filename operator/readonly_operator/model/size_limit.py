"""Size limit of a pool's lookup redirection config: one ConfigMap, which Kubernetes limits to 1 MiB. Pure.

A binding that does not fit is refused alone. What brokers hold already stays: no binding loses its place to another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.model.lookup import entry_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.model.lookup import Entry

MAX_BYTES = 1_000_000
"""Bytes of all bindings of a pool. The rest of the 1 MiB is for the revision and the names of keys."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Bindings that fit, and the others.

    Attributes:
        entries: entries for the brokers.
        refused: message by full name of each binding whose entry does not fit.
    """

    entries: tuple[Entry, ...]
    refused: Mapping[str, str]


def fit(entries: Iterable[Entry], former: Mapping[str, Entry], pool: str, limit: int = MAX_BYTES) -> Fitted:
    """Return the entries that fit into the ConfigMap together.

    A changed binding that no longer fits keeps its former entry.

    Args:
        entries: the desired entries, those of the oldest bindings first.
        former: the entries that brokers have, by the binding's full name.
        pool: name of the pool, for messages.
        limit: the most bytes of all entries.
    """
    wanted = {entry.name: entry for entry in entries}
    chosen = {name: former[name] for name in wanted if name in former}
    used = sum(map(entry_size, chosen.values()))
    refused = {}
    for name, entry in wanted.items():
        before = entry_size(chosen[name]) if name in chosen else 0
        size = entry_size(entry)
        if used - before + size <= limit or size <= before:
            used += size - before
            chosen[name] = entry
        else:
            kept = "; brokers keep its former topics and options" if name in chosen else ""
            refused[name] = (
                f"it takes {size:,} bytes, and {max(0, limit - used + before):,} of the {limit:,} bytes for the bindings of "
                f"ReadOnlyBrokerPool {pool} are left; name topics by expression or by namespace, or bind them to another pool"
                f"{kept}"
            )
    return Fitted(tuple(chosen.values()), refused)
