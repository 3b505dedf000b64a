"""Writing conditions to the status of an object, with events for the changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.kube import events, status
from readonly_operator.kube.names import PAUSED_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.assembly.context import Context
    from readonly_operator.kube.kinds import Kind, Manifest
    from readonly_operator.kube.status import Condition

BY_ANNOTATION = f'annotation {PAUSED_KEY} is "true": the operator changes nothing until it is removed'


def write_conditions(
    context: Context,
    kind: Kind,
    body: Manifest,
    conditions: Iterable[Condition],
    values: Mapping[str, Any],
    *,
    throttled: bool = False,
) -> bool:
    """Write the status of a reconciled object unless the object has it already.

    Args:
        context: dependencies.
        kind: kind of the object.
        body: the object.
        conditions: all conditions but those of every object.
        values: the other fields.
        throttled: whether other numbers and messages alone may wait; see StatusThrottle.

    Returns:
        Whether it was written.

    Raises:
        KubeError: the API server refused.
    """
    before = body.get("status") or {}
    complete = status.complete(conditions)
    generation = body["metadata"].get("generation", 0)
    rendered = status.render(before, generation, complete, values, context.now())
    if throttled and not context.status_throttle.admits(body, rendered):
        return False
    return _write(context, kind, body, rendered, complete)


def write_paused(context: Context, kind: Kind, body: Manifest, message: str = BY_ANNOTATION) -> None:
    """Write that an object is paused; the rest of its status stays.

    Raises:
        KubeError: the API server refused.
    """
    paused = status.paused(body.get("status") or {}, message)
    rendered = status.keep(body.get("status") or {}, body["metadata"].get("generation", 0), paused, context.now())
    _write(context, kind, body, rendered, paused)


def _write(
    context: Context, kind: Kind, body: Manifest, rendered: Mapping[str, Any], conditions: Iterable[Condition]
) -> bool:
    if context.scopes.problem(body["metadata"]["namespace"]):
        return False  # refused for sure, and a pool must not fail because of bindings of a lost namespace
    if not status.write(context.kube, context.store, kind, body, rendered):
        return False
    context.events.record(kind, body, events.of_conditions(body.get("status") or {}, conditions))
    return True
