"""Condition LocalCursors of bindings whose subscriptions' cursors the pool keeps: whether the source cluster allows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from readonly_operator.api.cursors import LOCAL
from readonly_operator.assembly.source_conditions import UNCHECKED, last_known
from readonly_operator.bindings.coverage import Coverage
from readonly_operator.cluster.cursor_limits import NO_LIMITS
from readonly_operator.cluster.local_cursors.checks import CheckRequest
from readonly_operator.cluster.local_cursors.policies import TYPE
from readonly_operator.kube.status import Condition, ConditionStatus, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.api.binding import Binding
    from readonly_operator.api.pool import Pool
    from readonly_operator.assembly.context import Context
    from readonly_operator.cluster.local_cursors.checks import NamespaceReport
    from readonly_operator.kube.kinds import Manifest


def check_namespaces(
    context: Context, pool: Pool, bindings: Sequence[tuple[Binding, Manifest]]
) -> dict[str, Condition]:
    """Have the namespaces with local cursors checked; return the condition LocalCursors by the binding's name.

    Bindings without local cursors have none, and neither have those whose namespaces the operator may not read.
    """
    local = [
        (binding, body)
        for binding, body in bindings
        if (binding.cursors or pool.cursors) == LOCAL and not binding.paused
    ]
    namespaces = Coverage.of(binding for binding, _ in local).namespaces
    source = context.sources.report(pool.source) if namespaces else None
    request = CheckRequest(
        pool.source,
        pool.identity,
        pool.cursor_partitions,
        namespaces,
        NO_LIMITS if source is None else source.cursor_limits,
    )
    context.cursor_checks.track(pool.key, {pool.key: request} if namespaces else {})
    if not namespaces:
        return {}
    reports = context.cursor_checks.report(pool.key)
    found = {}
    for binding, body in local:
        condition = local_cursors(Coverage.of([binding]).namespaces, reports)
        if condition is not None:
            found[binding.full_name] = last_known(body, condition)
    return found


def local_cursors(namespaces: Sequence[str], reports: Mapping[str, NamespaceReport]) -> Condition | None:
    """Return the condition LocalCursors of a binding.

    Args:
        namespaces: TENANT/NAMESPACE of its topics.
        reports: results of checks by namespace.

    Returns:
        The condition; None if the operator may not read the policies of any of the namespaces.
    """
    known = [reports[namespace] for namespace in namespaces if namespace in reports]
    obstacles = [condition for report in known for condition in report.obstacles]
    if obstacles:
        messages = dict.fromkeys(condition.message for condition in obstacles)
        return replace(obstacles[0], message=listed(messages))
    problems = [report.problem for report in known if report.problem]
    if problems:
        return Condition(
            TYPE,
            ConditionStatus.UNKNOWN,
            "SourceUnreachable",
            f"the policies of {listed(namespaces)} cannot be read: {problems[0]}",
        )
    if len(known) < len(namespaces):
        return Condition(
            TYPE, ConditionStatus.UNKNOWN, UNCHECKED, "the policies of its namespaces have not been read yet"
        )
    readable = [namespace for namespace, report in zip(namespaces, known, strict=True) if not report.forbidden]
    if not readable:
        return None
    return Condition(TYPE, ConditionStatus.TRUE, "Allowed", f"the policies of {listed(readable)} allow local cursors")
