"""The lookup redirection config of a pool: which topics its brokers serve, from all bindings that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from readonly_operator.api.binding import FALLBACKS, LIFECYCLES
from readonly_operator.kube.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.binding import Binding


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """What a broker is told of one binding.

    Attributes:
        name: of the binding, as NAMESPACE/NAME.
        topics: names and expressions.
        namespaces: TENANT/NAMESPACE.
        subscriptions: names and expressions; empty for all.
        fallback: one of FALLBACKS.
        lifecycle: one of LIFECYCLES.
    """

    name: str
    topics: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    fallback: str = FALLBACKS[0]
    lifecycle: str = LIFECYCLES[0]

    @classmethod
    def of(cls, binding: Binding) -> Entry:
        """What a binding says."""
        return cls(
            binding.full_name,
            binding.topics,
            binding.namespaces,
            binding.subscriptions,
            binding.fallback,
            binding.lifecycle,
        )

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Entry:
        """An entry of the file, or of what a broker says that it holds.

        Raises:
            KeyError: there is no name, or there are no topics.
            TypeError: a field is of another type.
        """
        return cls(
            document["name"],
            tuple(sorted(document["topics"])),
            tuple(sorted(document.get("namespaces", ()))),
            tuple(sorted(document.get("subscriptions", ()))),
            document.get("fallback", FALLBACKS[0]),
            document.get("lifecyclePolicy", LIFECYCLES[0]),
        )

    def document(self) -> dict[str, Any]:
        """The entry in the file: without what is left at its default, so that older brokers understand what they can do."""
        found: dict[str, Any] = {"name": self.name, "topics": list(self.topics)}
        if self.namespaces:
            found["namespaces"] = list(self.namespaces)
        if self.subscriptions:
            found["subscriptions"] = list(self.subscriptions)
        if self.fallback != FALLBACKS[0]:
            found["fallback"] = self.fallback
        if self.lifecycle != LIFECYCLES[0]:
            found["lifecyclePolicy"] = self.lifecycle
        return found


@dataclass(frozen=True, slots=True)
class LookupConfig:
    """What each broker of a pool is to hold.

    Attributes:
        revision: name of this content; equal content has the same revision.
        bindings: sorted by name.
    """

    revision: str
    bindings: tuple[Entry, ...]

    @classmethod
    def of(cls, bindings: Iterable[Binding]) -> LookupConfig:
        """The config that says what the bindings say, in whatever order they come."""
        return cls.holding(Entry.of(binding) for binding in bindings)

    @classmethod
    def holding(cls, entries: Iterable[Entry]) -> LookupConfig:
        """The config of these entries, in whatever order they come."""
        held = tuple(sorted(entries))
        # the letter keeps YAML readers from taking it for a number
        return cls(f"r{digest([entry.document() for entry in held])}", held)

    def yaml(self) -> str:
        """The file that brokers read."""
        documents = [entry.document() for entry in self.bindings]
        return yaml.safe_dump({"revision": self.revision, "bindings": documents}, sort_keys=False, width=1000)


def entries_of(text: str) -> dict[str, Entry]:
    """The entries of a file, by name; none where it is no such file."""
    try:
        entries = [Entry.parse(document) for document in yaml.safe_load(text)["bindings"]]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return {}
    return {entry.name: entry for entry in entries}
