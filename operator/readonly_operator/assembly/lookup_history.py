"""Last delivered entries of paused bindings: they stay, whatever happens to the spec and the ConfigMap meanwhile."""

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
    """Last lookup redirection config of each pool. It is kept in memory because users can edit the ConfigMap."""

    def __init__(self) -> None:
        self._last: dict[PoolKey, LookupConfig] = {}

    def record(self, key: PoolKey, config: LookupConfig) -> None:
        """Remember the config that the pool's brokers get now."""
        self._last[key] = config

    def forget(self, key: PoolKey) -> None:
        """Drop the config of a deleted pool."""
        self._last.pop(key, None)

    def entries(
        self, key: PoolKey, known: Manifest | None, bindings: Iterable[tuple[Binding, Manifest]]
    ) -> list[Entry]:
        """Return the desired entries: the binding's spec, or for a paused binding its last delivered entry.

        Args:
            key: key of the pool.
            known: its bindings ConfigMap; None for none.
            bindings: bindings in force, with their objects.
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

    def last(self, key: PoolKey, known: Manifest | None) -> dict[str, Entry]:
        """Return the last delivered entries by binding: this process's, else those of an unedited ConfigMap.

        Args:
            key: key of the pool.
            known: its bindings ConfigMap; None for none.
        """
        if key in self._last:
            return {entry.name: entry for entry in self._last[key].bindings}
        return self._last_entries(key, known, entries_of(((known or {}).get("data") or {}).get(BINDINGS_KEY, "")))

    def _last_entries(self, key: PoolKey, known: Manifest | None, there: dict[str, Entry]) -> dict[str, Entry]:
        """Return the last delivered entries by binding: this process's, else those of an unedited ConfigMap."""
        if key in self._last:
            return {entry.name: entry for entry in self._last[key].bindings}
        revision = LookupConfig.of_entries(there.values(), key.namespace).revision
        return there if revision in ((known or {}).get("data") or {}).get(BINDINGS_KEY, "") else {}


def _entry_in_force(binding: Binding, body: Manifest) -> Entry | None:
    """Return the binding's entry when its status proves that brokers got this generation; else None."""
    status = body.get("status") or {}
    last = status.get("lookupRevision") and status.get("observedGeneration") == binding.generation
    return Entry.of(binding) if last else None
