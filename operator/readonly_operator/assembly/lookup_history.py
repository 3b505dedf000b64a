"""What brokers were told of bindings that are paused: that stays, whatever becomes of the spec and of the ConfigMap meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.kube.names import BINDINGS_KEY
from readonly_operator.model.lookup import Entry, LookupConfig, entries_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.api.binding import Binding
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey


class LookupHistory:
    """Remembers what the brokers of each pool were told last, for a ConfigMap can be edited by hand."""

    def __init__(self) -> None:
        self._last: dict[PoolKey, LookupConfig] = {}

    def record(self, key: PoolKey, config: LookupConfig) -> None:
        """Take note of what is told to a pool's brokers now."""
        self._last[key] = config

    def forget(self, key: PoolKey) -> None:
        """Drop what is remembered of a pool that is gone."""
        self._last.pop(key, None)

    def entries(
        self, key: PoolKey, known: Manifest | None, bindings: Iterable[tuple[Binding, Manifest]]
    ) -> list[Entry]:
        """What brokers are to hold: what the bindings say; of those that are paused, what brokers were told last.

        Args:
            key: of the pool.
            known: its ConfigMap of bindings; None for none.
            bindings: those that are in force, with their objects.
        """
        every = list(bindings)
        if not any(binding.paused for binding, _ in every):
            return [Entry.of(binding) for binding, _ in every]
        there = entries_of(((known or {}).get("data") or {}).get(BINDINGS_KEY, ""))
        last = self._last_entries(key, known, there)
        found = []
        for binding, body in every:
            if binding.paused:
                name = binding.full_name
                entry = last.get(name) or _entry_in_force(binding, body) or there.get(name)
            else:
                entry = Entry.of(binding)
            if entry is not None:
                found.append(entry)
        return found

    def _last_entries(self, key: PoolKey, known: Manifest | None, there: dict[str, Entry]) -> dict[str, Entry]:
        """By binding what was told last: in this process, or what the ConfigMap has, as long as it is what an operator wrote."""
        if key in self._last:
            return {entry.name: entry for entry in self._last[key].bindings}
        revision = LookupConfig.holding(there.values()).revision
        return there if revision in ((known or {}).get("data") or {}).get(BINDINGS_KEY, "") else {}


def _entry_in_force(binding: Binding, body: Manifest) -> Entry | None:
    """What a binding says, where brokers were told just that; None where they may have been told something else, or nothing."""
    status = body.get("status") or {}
    last = status.get("lookupRevision") and status.get("observedGeneration") == binding.generation
    return Entry.of(binding) if last else None
