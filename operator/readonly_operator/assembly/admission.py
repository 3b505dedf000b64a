"""Bindings that their pool does not allow, and those whose pool is in a namespace that the operator does not serve."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from readonly_operator.api.pool.allowed_bindings import SELECTOR, parse_allowed_bindings
from readonly_operator.bindings.admission import TYPE, accepted_condition
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import NAMESPACE
from readonly_operator.kube.status import Condition, ConditionStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_operator.assembly.context import Context
    from readonly_operator.bindings.pool_bindings import PoolBindings
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey


def admit(context: Context, key: PoolKey, body: Manifest, bindings: PoolBindings) -> PoolBindings:
    """Return the bindings that a pool allows, and the others with the reason. The rest of its spec may be invalid.

    Raises:
        ApiSpecError: its spec.allowedBindings is invalid.
        KubeError: the labels of a namespace could not be read; a retry may help.
    """
    rules = parse_allowed_bindings(body.get("spec") or {})
    if rules.namespaces.scope == SELECTOR:
        every = (*(body for _, body in (*bindings.good, *bindings.broken)), *bindings.leaving)
        _read_labels(context, {body["metadata"]["namespace"] for body in every} - {key.namespace})
    return bindings.allowed(key, rules, context.store.namespaces)


def _read_labels(context: Context, namespaces: set[str]) -> None:
    """Read the labels of namespaces that are not known yet: the first event of a binding may precede that of its namespace."""
    known = context.store.namespaces
    for name in sorted(one for one in namespaces if known.labels(one) is None and not context.scopes.problem(one)):
        try:
            body = context.kube.get(NAMESPACE, "", name)
        except KubeError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            known.forbid(str(error))
            return
        if body is not None:
            known.put(body)


def refused(message: str) -> Condition:
    """Return Accepted of a binding that its pool does not allow."""
    return Condition(TYPE, ConditionStatus.FALSE, "NotAllowedByPool", message)


def last_accepted(body: Manifest, *, allowed: bool) -> list[Condition]:
    """Return Accepted of a binding that its pool does not refuse now; none for a binding that was never refused.

    Args:
        body: the binding.
        allowed: whether the pool is known to allow it; else the condition stays as it is.
    """
    condition = accepted_condition(body)
    if condition is None:
        return []
    if allowed:
        return [
            Condition(TYPE, ConditionStatus.TRUE, "Accepted", "spec.allowedBindings of the pool allows this binding")
        ]
    return [Condition(TYPE, ConditionStatus(condition["status"]), condition["reason"], condition["message"])]


def is_served(served: Sequence[str], key: PoolKey) -> bool:
    """Return whether the operator serves the namespace of a pool.

    Args:
        served: the operator's namespaces; empty for all.
        key: the pool.
    """
    return not served or key.namespace in served


def not_readable(key: PoolKey) -> str:
    """Return why a pool cannot be found whose namespace the operator cannot read at present."""
    return (
        f"spec.poolRef: the operator may not read namespace {key.namespace} of ReadOnlyBrokerPool {key.name}: the namespace or "
        "the operator's RoleBinding in it is gone; restore them, or remove it from the operator's namespaces (--namespace)"
    )


def not_served(served: Sequence[str], key: PoolKey) -> str:
    """Return why a pool cannot be found whose namespace the operator does not serve.

    Args:
        served: the operator's namespaces.
        key: the pool.
    """
    return (
        f"spec.poolRef.namespace: this operator does not serve namespace {key.namespace} of ReadOnlyBrokerPool {key.name}, but "
        f"{', '.join(served)}: add it to the operator's namespaces (--namespace), or name a pool of a namespace that it serves"
    )
