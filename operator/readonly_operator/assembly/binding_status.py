"""Status of bindings. Reconciling a pool delivers its bindings to brokers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from readonly_operator.assembly.admission import last_accepted, refused
from readonly_operator.assembly.conditions import write_conditions, write_paused
from readonly_operator.bindings.pool_bindings import full_name
from readonly_operator.kube.kinds import BINDING, Manifest
from readonly_operator.kube.status import Condition, ConditionStatus, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.api.binding import Binding
    from readonly_operator.assembly.context import Context
    from readonly_operator.assembly.lookup_state import LookupState
    from readonly_operator.bindings.pool_bindings import PoolBindings
    from readonly_operator.kube.names import PoolKey


def report_status(
    context: Context,
    bindings: Sequence[tuple[Binding, Manifest]],
    state: LookupState,
    cursors: Mapping[str, Condition],
    prevailing: Mapping[str, str],
) -> None:
    """Write to each binding how many brokers serve it, and its statistics.

    Args:
        context: dependencies.
        bindings: the bindings.
        state: bindings at the brokers.
        cursors: the condition LocalCursors by the binding's name, of those that have one.
        prevailing: which other bindings claim topics of a binding without effect, by its name.
    """
    for binding, body in bindings:
        if binding.paused:
            write_paused(context, BINDING, body)
            continue
        values = _values(state, binding, body)
        name = binding.full_name
        conditions = _conditions(state, binding, values["matchedTopics"]) + last_accepted(body, allowed=True)
        if name in cursors:
            conditions.append(cursors[name])
        if name in prevailing:
            conditions.append(Condition("TopicConflict", ConditionStatus.TRUE, "Prevails", prevailing[name]))
        _write(context, body, conditions, values)


def _values(state: LookupState, binding: Binding, body: Manifest) -> dict[str, Any]:
    """Return the status fields besides conditions of a binding in force."""
    stats = state.stats(binding)
    holders = state.holders(binding)
    return {
        "brokers": state.brokers,
        "holdingBrokers": holders,
        "servingBrokers": state.serving(binding),
        "lookupRevision": _revision(body, state, holders),
        "matchedTopics": stats.topics,
        "matchedPartitions": stats.partitions,
        "lag": [asdict(lag) for lag in stats.lag] or None,
    }


def _revision(body: Manifest, state: LookupState, holders: int) -> str:
    """Return the revision by which brokers got the binding.

    A change of another binding does not change it: otherwise each change would write the status of every binding of the pool.
    """
    before = body.get("status") or {}
    same = (body["metadata"].get("generation"), state.brokers, holders)
    if same == (before.get("observedGeneration"), before.get("brokers"), before.get("holdingBrokers")):
        return before.get("lookupRevision") or state.wanted.revision
    return state.wanted.revision


def report_conflicts(
    context: Context, conflicts: Mapping[str, str], bindings: Sequence[tuple[Binding, Manifest]]
) -> None:
    """Write the conflict with an earlier claim to the status of bindings."""
    for binding, body in bindings:
        message = conflicts[binding.full_name]
        accepted = last_accepted(body, allowed=True)
        _write(context, body, [*_all("Conflict", message), _superseded(message), *accepted], {})


def report_oversized(context: Context, excess: Mapping[str, str], bindings: Sequence[tuple[Binding, Manifest]]) -> None:
    """Write to bindings that do not fit into the pool's lookup redirection config how large they are."""
    for binding, body in bindings:
        _write(context, body, _all("TooLarge", excess[binding.full_name]) + last_accepted(body, allowed=True), {})


def report_not_allowed(context: Context, bindings: PoolBindings) -> None:
    """Write to bindings that their pool does not allow which field of the pool decides."""
    for body in bindings.not_allowed:
        message = bindings.denials[full_name(body)]
        _write(context, body, [*_all("NotAllowedByPool", message), refused(message)], {})


def report_not_served(context: Context, message: str, bindings: Sequence[tuple[Binding, Manifest]]) -> None:
    """Write to bindings why the operator does not serve the namespace of their pool."""
    for _, body in bindings:
        _write(context, body, _all("NamespaceNotServed", message), {})


def report_pool_not_found(
    context: Context,
    key: PoolKey,
    bindings: Sequence[tuple[Binding, Manifest]],
    holders: Mapping[str, str],
    *,
    deleting: bool,
) -> None:
    """Write that the pool does not exist. Its creation reconciles the bindings again.

    Args:
        context: dependencies.
        key: the pool.
        bindings: its bindings.
        holders: which bindings of other pools serve topics of a binding, by its name.
        deleting: whether the pool still exists, and is being deleted.
    """
    others = sorted(
        pool["metadata"]["name"] for pool in context.store.pools() if pool["metadata"]["namespace"] == key.namespace
    )
    others = [name for name in others if name != key.name]
    hint = f"; there is {listed(others)}" if others else "; there is none at all"
    for binding, body in bindings:
        if deleting:
            message = f'ReadOnlyBrokerPool "{key.name}" in namespace "{key.namespace}" is being deleted'
        else:
            message = f'there is no ReadOnlyBrokerPool "{key.name}" in namespace "{key.namespace}"'
            # users of another namespace may not be allowed to list its pools
            message += hint if binding.namespace == key.namespace else ""
        conditions = _all("PoolNotFound", message)
        if binding.full_name in holders:
            conditions.append(
                _superseded(f"{holders[binding.full_name]}; that binding keeps it when this pool is created")
            )
        _write(context, body, conditions, {})


def report_pool_failed(
    context: Context, bindings: Sequence[tuple[Binding, Manifest]], state: LookupState, reason: str, message: str
) -> bool:
    """Write that the pool cannot be reconciled. A binding that ready brokers serve as it is now stays ready: they continue.

    Args:
        context: dependencies.
        bindings: the bindings.
        state: bindings at the brokers; its `wanted` is the config that they got last.
        reason: the pool's reason.
        message: the pool's message.

    Returns:
        Whether a binding is served.
    """
    served = False
    for binding, body in bindings:
        text = pool_failure(binding.pool, binding.namespace, reason, message)
        accepted = last_accepted(body, allowed=False)
        if not state.serving(binding):
            _write(context, body, _all("PoolFailed", text) + accepted, {})
            continue
        served = True
        values = _values(state, binding, body)
        conditions = [one for one in _conditions(state, binding, values["matchedTopics"]) if one.type != "Progressing"]
        conditions.append(Condition("Progressing", ConditionStatus.FALSE, "PoolFailed", text))
        _write(context, body, [*conditions, *accepted, *_former(body, "LocalCursors", "TopicConflict")], values)
    return served


def _former(body: Manifest, *types: str) -> list[Condition]:
    """Return the conditions of these types that a binding has already."""
    return [
        Condition(one["type"], ConditionStatus(one["status"]), one.get("reason", ""), one.get("message", ""))
        for one in (body.get("status") or {}).get("conditions") or ()
        if one["type"] in types
    ]


def pool_failure(key: PoolKey, namespace: str, reason: str, message: str) -> str:
    """Return why a pool cannot be reconciled, for a binding of a namespace: the details stay in the pool's own."""
    if key.namespace == namespace:
        return f'ReadOnlyBrokerPool "{key.name}": {reason}: {message}'
    return f'ReadOnlyBrokerPool "{key}": {reason}; its condition Ready has the message'


def report_invalid(context: Context, broken: Sequence[tuple[str, Manifest]]) -> None:
    """Write why the spec of bindings is invalid."""
    for message, body in broken:
        _write(context, body, _all("InvalidSpec", message) + last_accepted(body, allowed=False), {})


def _conditions(state: LookupState, binding: Binding, topics: int | None) -> list[Condition]:
    """Return the conditions of a binding in force. One ready broker with it is enough to serve it.

    The pool's conditions have the reason of each broker: here a restart of one broker changes a number only.
    """
    serving = state.serving(binding)
    head = f"{serving} of {state.brokers} brokers serve it"
    if state.asleep:
        head += ": the pool sleeps, and a client that looks a topic up wakes it"
        return [
            Condition("Ready", ConditionStatus.TRUE, "Asleep", head),
            Condition("Progressing", ConditionStatus.FALSE, "Asleep", head),
            Condition("LookupConfigured", ConditionStatus.UNKNOWN, "Asleep", head),
        ]
    if topics == 0:
        head += "; the source cluster has no such topic yet"
    ready = Condition("Ready", ConditionStatus.TRUE, "Held", head)
    if state.brokers and 0 < serving == state.ready:
        return [
            ready,
            Condition("Progressing", ConditionStatus.FALSE, "Settled", head),
            Condition("LookupConfigured", ConditionStatus.TRUE, "Held", head),
        ]
    lacking = _not_loaded(state, binding, serving, head)
    return [
        ready if serving else Condition("Ready", ConditionStatus.FALSE, lacking.reason, lacking.message),
        Condition(
            "Progressing",
            ConditionStatus.TRUE if state.brokers else ConditionStatus.FALSE,
            lacking.reason,
            lacking.message,
        ),
        lacking,
    ]


def _not_loaded(state: LookupState, binding: Binding, serving: int, head: str) -> Condition:
    """Return LookupConfigured while no broker serves the binding, or a ready broker lacks it."""
    where = f"ReadOnlyBrokerPool {binding.pool_name}"
    if state.brokers == 0:
        return Condition(
            "LookupConfigured", ConditionStatus.UNKNOWN, "NoBrokers", f"{head}: spec.replicas of {where} is 0"
        )
    see = f"; the condition LookupConfigured of {where} has the reason of each broker"
    if state.refused(binding):
        return Condition("LookupConfigured", ConditionStatus.FALSE, "BrokerRefuses", f"{head}{see}")
    if serving < state.ready:
        return Condition("LookupConfigured", ConditionStatus.FALSE, "BrokersBehind", f"{head}{see}")
    return Condition(
        "LookupConfigured", ConditionStatus.UNKNOWN, "BrokersUnreachable", f"{head}; no broker is ready{see}"
    )


def _superseded(message: str) -> Condition:
    return Condition("TopicConflict", ConditionStatus.TRUE, "Overruled", message)


def _all(reason: str, message: str) -> list[Condition]:
    return [
        Condition("Ready", ConditionStatus.FALSE, reason, message),
        Condition("Progressing", ConditionStatus.FALSE, reason, message),
        Condition("LookupConfigured", ConditionStatus.FALSE, reason, message),
    ]


def _write(context: Context, body: Manifest, conditions: list[Condition], values: dict[str, Any]) -> None:
    write_conditions(context, BINDING, body, conditions, values, throttled=True)
