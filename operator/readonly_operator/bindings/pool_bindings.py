"""Bindings of one pool, grouped by validity and conflicts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from readonly_operator.api.binding import Binding
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.bindings.admission import denial, namespace_denial
from readonly_operator.bindings.conflicts import find_conflicts
from readonly_operator.kube.kinds import BINDING, Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.api.pool import Pool
    from readonly_operator.api.pool.allowed_bindings import AllowedBindings
    from readonly_operator.bindings.conflicts import MatchedTopics
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.namespaces import NamespaceLabels
    from readonly_operator.kube.store import Store

LoadedBinding = tuple[Binding, Manifest]
"""A binding and its object."""


@dataclass(frozen=True, slots=True)
class PoolBindings:
    """Bindings of one pool.

    Attributes:
        good: bindings for the brokers.
        broken: objects with an invalid spec, with the reason.
        held_back: bindings that conflict with an earlier claim of another pool.
        against: message of each conflict, by full name.
        prevailing: message of each other binding whose topics a binding without effect claims too, by full name.
        contested: whether any binding overlaps another pool's; the existing topics then decide.
        leaving: objects of bindings that are being deleted, and wait for a finalizer.
        oversized: bindings that do not fit into the pool's lookup redirection config.
        excess: message of each of them, by full name.
        not_allowed: objects of bindings that the pool does not allow.
        denials: message of each of them, and of each one in `leaving` that it does not allow, by full name.
    """

    good: tuple[LoadedBinding, ...]
    broken: tuple[tuple[str, Manifest], ...]
    held_back: tuple[LoadedBinding, ...] = ()
    against: Mapping[str, str] = field(default_factory=dict)
    prevailing: Mapping[str, str] = field(default_factory=dict)
    contested: bool = False
    leaving: tuple[Manifest, ...] = ()
    oversized: tuple[LoadedBinding, ...] = ()
    excess: Mapping[str, str] = field(default_factory=dict)
    not_allowed: tuple[Manifest, ...] = ()
    denials: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, key: PoolKey) -> PoolBindings:
        """Return the bindings of a pool."""
        good: list[LoadedBinding] = []
        leaving: list[Manifest] = []
        broken: list[tuple[str, Manifest]] = []
        for body in store.of_pool(BINDING, key):
            if "deletionTimestamp" in body["metadata"]:
                leaving.append(body)
                continue
            try:
                good.append((Binding.load(body), body))
            except ApiSpecError as error:
                broken.append((str(error), body))
        return cls(tuple(good), tuple(broken), leaving=tuple(leaving))

    def allowed(self, key: PoolKey, rules: AllowedBindings, known: NamespaceLabels) -> PoolBindings:
        """Return the same bindings, without those that the pool does not allow.

        Args:
            key: the pool.
            rules: its spec.allowedBindings.
            known: labels of namespaces.
        """
        denials = {binding.full_name: denial(rules, binding, known) for binding, _ in self.good}
        for body in (*self.leaving, *(body for _, body in self.broken)):
            denials[full_name(body)] = _denial_of(rules, key, body, known)
        denials = {name: message for name, message in denials.items() if message}
        if not denials:
            return self
        every = (*(body for _, body in self.good), *(body for _, body in self.broken))
        return replace(
            self,
            good=tuple(one for one in self.good if one[0].full_name not in denials),
            broken=tuple(one for one in self.broken if full_name(one[1]) not in denials),
            not_allowed=tuple(body for body in every if full_name(body) in denials),
            denials=denials,
        )

    def without_conflicts(self, store: Store, matched: MatchedTopics, domain: str, pool: Pool) -> PoolBindings:
        """Return the same bindings, with conflicting ones held back; for the arguments, see find_conflicts."""
        found = find_conflicts(store, matched, domain, pool, (binding for binding, _ in self.good))
        return replace(
            self,
            good=tuple(one for one in self.good if one[0].full_name not in found.against),
            held_back=tuple(one for one in self.good if one[0].full_name in found.against),
            against=found.against,
            prevailing=found.prevailing,
            contested=found.open,
        )

    def without_oversized(self, excess: Mapping[str, str]) -> PoolBindings:
        """Return the same bindings, without those that have a message here, by full name."""
        return replace(
            self,
            good=tuple(one for one in self.good if one[0].full_name not in excess),
            oversized=tuple(one for one in self.good if one[0].full_name in excess),
            excess=excess,
        )

    @property
    def oldest_first(self) -> list[LoadedBinding]:
        """Return the bindings for the brokers by age."""
        return sorted(self.good, key=lambda one: (one[0].created, one[0].full_name))

    @property
    def readable(self) -> tuple[LoadedBinding, ...]:
        """Return all bindings with a valid spec that the pool allows."""
        return (*self.good, *self.held_back, *self.oversized)

    def __len__(self) -> int:
        """Return the number of bindings that name the pool and that it allows, without those being deleted."""
        return len(self.readable) + len(self.broken)


def full_name(body: Manifest) -> str:
    """Return the full name of a binding, whether or not its spec is valid."""
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _denial_of(rules: AllowedBindings, pool: PoolKey, body: Manifest, known: NamespaceLabels) -> str:
    """Return why the pool does not allow a binding whose spec may be invalid: then its topics are not known."""
    try:
        return denial(rules, Binding.load(body), known)
    except ApiSpecError:
        return namespace_denial(rules, pool, body["metadata"]["namespace"], known)
