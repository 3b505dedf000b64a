"""Admission of bindings by their pool: spec.allowedBindings.

A binding that the pool does not allow claims no topic, and its claim begins when the pool allows it. So it takes no topic back
from a binding that is in force by then. The condition Accepted has the time; a binding that was never refused does not have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_operator.api.pool.allowed_bindings import (
    ALL,
    NO_OTHERS,
    SAME,
    SELECTOR,
    AllowedBindings,
    parse_allowed_bindings,
)
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.bindings.overlap import namespace_of
from readonly_operator.kube.status import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.api.binding import Binding
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.namespaces import NamespaceLabels

TYPE: Final = "Accepted"
"""Condition of a binding that its pool refuses, or has refused before."""
LATER: Final = "9999-12-31T23:59:59Z"
"""Begin of the claim of a binding that is about to be accepted: after all claims in force."""


def namespace_denial(allowed: AllowedBindings, pool: PoolKey, namespace: str, known: NamespaceLabels) -> str:
    """Return why a pool serves no binding of a namespace; empty if it does.

    Args:
        allowed: the pool's spec.allowedBindings.
        pool: the pool.
        namespace: of the binding.
        known: labels of namespaces.
    """
    scope = allowed.namespaces.scope
    if namespace == pool.namespace or scope == ALL:
        return ""
    field = f"spec.allowedBindings.namespaces of ReadOnlyBrokerPool {pool}"
    if scope == SAME:
        return f"{field} allows bindings of namespace {pool.namespace} only (from: {SAME}), and not of {namespace}"
    labels = known.labels(namespace)
    if labels is None:
        why = known.problem or "they have not been read yet"
        return (
            f"{field} selects namespaces by label, and the labels of {namespace} are not known: {why}; the operator's service "
            "account needs verbs get, list and watch on namespaces, as manifests/cluster-wide grants"
        )
    if allowed.namespaces.selects(labels):
        return ""
    return f"{field} (from: {SELECTOR}) does not select namespace {namespace}: its labels do not match the selector"


def denial(allowed: AllowedBindings, binding: Binding, known: NamespaceLabels) -> str:
    """Return why the pool of a binding does not serve it; empty if it does.

    Args:
        allowed: the pool's spec.allowedBindings.
        binding: the binding.
        known: labels of namespaces.
    """
    refused = namespace_denial(allowed, binding.pool, binding.namespace, known)
    if refused or not allowed.tenants:
        return refused
    named = allowed.forbidden([*map(namespace_of, binding.topics), *binding.namespaces])
    if not named:
        return ""
    return (
        f"spec.allowedBindings.tenants of ReadOnlyBrokerPool {binding.pool} does not include {listed(named)}: name topics of "
        "its tenants only, or bind these topics to another pool"
    )


def allowed_by(pool: Manifest) -> AllowedBindings:
    """Return a pool's spec.allowedBindings; the default if it is invalid: brokers keep what they have until it is repaired."""
    try:
        return parse_allowed_bindings(pool.get("spec") or {})
    except ApiSpecError:
        return NO_OTHERS


def accepted_since(body: Manifest) -> str:
    """Return since when a pool allows a binding that it refused before; empty if it never did.

    Args:
        body: the binding. It is allowed now.

    Returns:
        A time as the API server writes it; LATER while the status does not have it yet.
    """
    condition = accepted_condition(body)
    if condition is None:
        return ""
    return str(condition["lastTransitionTime"]) if condition["status"] == "True" else LATER


def accepted_condition(body: Manifest) -> Mapping[str, str] | None:
    """Return the condition Accepted of a binding's status, or None."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == TYPE), None)
