"""The bindings that name a pool, sorted by what can be done with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from readonly_operator.api.binding import Binding
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.bindings.conflicts import find_conflicts
from readonly_operator.kube.kinds import BINDING, Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.api.pool import Pool
    from readonly_operator.bindings.conflicts import MatchedTopics
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.store import Store

LoadedBinding = tuple[Binding, Manifest]
"""A binding and the object that it was read from."""


@dataclass(frozen=True, slots=True)
class PoolBindings:
    """Bindings of one pool.

    Attributes:
        good: those that brokers are told of.
        broken: those whose spec cannot be used, with the reason.
        held_back: those that an older one of another pool stands against.
        against: what to say of those, by full name.
        contested: whether any of all has rivals: what topics there are decides then.
    """

    good: tuple[LoadedBinding, ...]
    broken: tuple[tuple[str, Manifest], ...]
    held_back: tuple[LoadedBinding, ...] = ()
    against: Mapping[str, str] = field(default_factory=dict)
    contested: bool = False

    @classmethod
    def of(cls, store: Store, key: PoolKey) -> PoolBindings:
        """The bindings that name a pool and are there to stay."""
        good: list[LoadedBinding] = []
        broken: list[tuple[str, Manifest]] = []
        for body in store.of_pool(BINDING, key):
            if "deletionTimestamp" in body["metadata"]:
                continue
            try:
                good.append((Binding.load(body), body))
            except ApiSpecError as error:
                broken.append((str(error), body))
        return cls(tuple(good), tuple(broken))

    def without_conflicts(self, store: Store, matched: MatchedTopics, pool: Pool) -> PoolBindings:
        """The same, where those that older ones of other pools stand against are held back."""
        found = find_conflicts(store, matched, pool, (binding for binding, _ in self.good))
        return replace(
            self,
            good=tuple(one for one in self.good if one[0].full_name not in found.against),
            held_back=tuple(one for one in self.good if one[0].full_name in found.against),
            against=found.against,
            contested=found.open,
        )

    @property
    def readable(self) -> tuple[LoadedBinding, ...]:
        """All whose spec can be used."""
        return (*self.good, *self.held_back)

    def __len__(self) -> int:
        """How many name the pool."""
        return len(self.readable) + len(self.broken)
