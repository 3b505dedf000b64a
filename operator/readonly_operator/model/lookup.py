"""Lookup redirection config of a pool: the topics that its brokers serve, from all bindings of the pool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from readonly_operator.api.binding import DISPATCHES, FALLBACKS, LIFECYCLES, PLACEMENTS
from readonly_operator.kube.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.binding import Binding

SIZE_CACHE_SIZE = 32768
"""Sizes that are cached: more than one operator's bindings."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One binding in the lookup redirection config.

    Attributes:
        name: of the binding, as NAMESPACE/NAME.
        topics: names and expressions.
        namespaces: TENANT/NAMESPACE.
        subscriptions: names and expressions; empty for all.
        fallback: one of FALLBACKS.
        lifecycle: one of LIFECYCLES.
        tail: one of TAILS; empty for the brokers' own setting.
        cursors: one of KEEPERS; empty for the brokers' own setting.
        dispatch: one of DISPATCHES.
        placement: one of PLACEMENTS.
    """

    name: str
    topics: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    fallback: str = FALLBACKS[0]
    lifecycle: str = LIFECYCLES[0]
    tail: str = ""
    cursors: str = ""
    dispatch: str = DISPATCHES[0]
    placement: str = PLACEMENTS[0]

    @classmethod
    def of(cls, binding: Binding) -> Entry:
        """Return the entry of a binding."""
        return cls(
            binding.full_name,
            binding.topics,
            binding.namespaces,
            binding.subscriptions,
            binding.fallback,
            binding.lifecycle,
            binding.tail,
            binding.cursors,
            binding.dispatch,
            binding.placement,
        )

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Entry:
        """Parse an entry of the file or of a broker's answer.

        Raises:
            KeyError: the name or the topics are missing.
            TypeError: a field has another type.
        """
        return cls(
            document["name"],
            tuple(sorted(document["topics"])),
            tuple(sorted(document.get("namespaces", ()))),
            tuple(sorted(document.get("subscriptions", ()))),
            document.get("fallback", FALLBACKS[0]),
            document.get("lifecyclePolicy", LIFECYCLES[0]),
            document.get("tail", ""),
            document.get("cursors", ""),
            document.get("dispatch", DISPATCHES[0]),
            document.get("placement", PLACEMENTS[0]),
        )

    def document(self) -> dict[str, Any]:
        """Return the entry as written to the file. Defaults are left out, so that older brokers understand it."""
        found: dict[str, Any] = {"name": self.name, "topics": list(self.topics)}
        if self.namespaces:
            found["namespaces"] = list(self.namespaces)
        if self.subscriptions:
            found["subscriptions"] = list(self.subscriptions)
        if self.fallback != FALLBACKS[0]:
            found["fallback"] = self.fallback
        if self.lifecycle != LIFECYCLES[0]:
            found["lifecyclePolicy"] = self.lifecycle
        if self.tail:
            found["tail"] = self.tail
        if self.cursors:
            found["cursors"] = self.cursors
        if self.dispatch != DISPATCHES[0]:
            found["dispatch"] = self.dispatch
        if self.placement != PLACEMENTS[0]:
            found["placement"] = self.placement
        return found


@dataclass(frozen=True, slots=True)
class LookupConfig:
    """Lookup redirection config of every broker of a pool.

    Attributes:
        revision: hash of the content; equal content has the same revision.
        bindings: those of the pool's own namespace first, then the others, each sorted by name.
    """

    revision: str
    bindings: tuple[Entry, ...]

    @classmethod
    def of(cls, bindings: Iterable[Binding], namespace: str = "") -> LookupConfig:
        """Return the config of these bindings, in any order; see `of_entries`."""
        return cls.of_entries((Entry.of(binding) for binding in bindings), namespace)

    @classmethod
    def of_entries(cls, entries: Iterable[Entry], namespace: str = "") -> LookupConfig:
        """Return the config of these entries, in any order.

        Of several bindings of a topic, brokers take tail and cursors of the first one that names them. A binding of another
        namespace, whose name may sort before, must not decide that for the pool's own.

        Args:
            entries: the entries.
            namespace: the pool's own; empty when the entries are of one namespace.
        """
        held = tuple(sorted(entries, key=lambda one: (one.name.partition("/")[0] != namespace, one)))
        # the letter keeps YAML parsers from reading a number
        return cls(f"r{digest([entry.document() for entry in held])}", held)

    def yaml(self) -> str:
        """Return the file that brokers read."""
        documents = [entry.document() for entry in self.bindings]
        return _dump({"revision": self.revision, "bindings": documents})


@lru_cache(maxsize=SIZE_CACHE_SIZE)
def entry_size(entry: Entry) -> int:
    """Return the bytes that an entry takes in the file. Writing it takes milliseconds, and few entries have changed."""
    return len(_dump([entry.document()]).encode())


def _dump(document: object) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=1000)


def entries_of(text: str) -> dict[str, Entry]:
    """Return the entries of a file by name; none when the file is invalid."""
    try:
        entries = [Entry.parse(document) for document in yaml.safe_load(text)["bindings"]]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return {}
    return {entry.name: entry for entry in entries}
