"""Conditions of a pool about its source cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.api.pool.explicit_lac import LAC_SETTING, SUGGESTED_MS
from readonly_operator.kube.status import Condition, ConditionStatus, listed

if TYPE_CHECKING:
    from readonly_operator.api.pool import ExplicitLac
    from readonly_operator.cluster.explicit_lac.probe import ProbeResult
    from readonly_operator.cluster.source import SourceReport
    from readonly_operator.kube.kinds import Manifest

UNCHECKED = "NotChecked"


def last_known(body: Manifest, condition: Condition) -> Condition:
    """Return the condition, or while nothing was checked yet the one in the status for the same generation.

    A new operator process has checked nothing, so it keeps its predecessor's result. A restart then changes no status.
    """
    if condition.reason != UNCHECKED:
        return condition
    for one in (body.get("status") or {}).get("conditions") or ():
        if one["type"] == condition.type and one.get("observedGeneration") == body["metadata"].get("generation"):
            return Condition(one["type"], ConditionStatus(one["status"]), one["reason"], one["message"])
    return condition


def source_reachable(report: SourceReport | None, fields: str = "spec.source.") -> Condition:
    """Return SourceReachable: whether the three URLs of the spec answer the operator.

    Args:
        report: report about the source cluster; None before the first.
        fields: beginning of the names of the source's fields, for messages.
    """
    if report is None:
        return Condition(
            "SourceReachable", ConditionStatus.UNKNOWN, UNCHECKED, "the source cluster has not been checked yet"
        )
    if report.problems:
        return Condition(
            "SourceReachable",
            ConditionStatus.FALSE,
            "Unreachable",
            "; ".join(f"{fields}{problem}" for problem in report.problems),
        )
    return Condition(
        "SourceReachable",
        ConditionStatus.TRUE,
        "Answers",
        "admin API, service URL and metadata store of the source cluster answer",
    )


def explicit_lac(
    report: SourceReport | None,
    wanted: ExplicitLac,
    managed: Condition | None = None,
    probed: ProbeResult | None = None,
) -> Condition:
    """Return ExplicitLac: whether every active owner broker sends explicit LACs often enough, else the setting to change.

    Args:
        report: report about the source cluster.
        wanted: the desired settings.
        managed: condition of managed explicit LAC, which takes precedence; None for none.
        probed: result of the last probe; None for none.
    """
    if managed is not None:
        return managed
    if report is None:
        return Condition(
            "ExplicitLac", ConditionStatus.UNKNOWN, UNCHECKED, "the source cluster has not been checked yet"
        )
    off = [broker for broker, interval in report.intervals_ms if interval <= 0]
    target = wanted.interval_ms or SUGGESTED_MS
    todo = (
        f"set {LAC_SETTING}={target} in broker.conf of every owner broker "
        f"(Apache Pulsar's Helm chart: broker.configData.{LAC_SETTING}) and restart them"
    )
    if off:
        return Condition(
            "ExplicitLac",
            ConditionStatus.FALSE,
            "Off",
            f"{LAC_SETTING} is 0 (off) on {listed(off)}: {todo}; "
            "until then read-only brokers query the owner broker for the newest entry",
        )
    slow = [
        f"{interval} on {broker}"
        for broker, interval in report.intervals_ms
        if wanted.interval_ms and interval > wanted.interval_ms
    ]
    if slow:
        return Condition(
            "ExplicitLac",
            ConditionStatus.FALSE,
            "TooSlow",
            f"{LAC_SETTING} is {listed(slow)}, and spec.explicitLac.interval accepts at most {wanted.interval_ms}: {todo}",
        )
    if report.unasked:
        silent = listed(f"{broker}: {reason}" for broker, reason in report.unasked)
        return Condition(
            "ExplicitLac",
            ConditionStatus.UNKNOWN,
            "BrokersUnreachable",
            f"the runtime configuration of these brokers cannot be read: {silent}",
        )
    if not report.intervals_ms:
        return Condition(
            "ExplicitLac",
            ConditionStatus.UNKNOWN,
            "SourceUnreachable",
            "the admin API does not answer; see condition SourceReachable",
        )
    intervals = sorted({interval for _, interval in report.intervals_ms})
    shown = " to ".join(f"{interval} ms" for interval in sorted({intervals[0], intervals[-1]}))
    count = len(report.intervals_ms)
    words = f"{count} of {count} active owner brokers send explicit LACs every {shown}"
    if probed is None:
        return Condition("ExplicitLac", ConditionStatus.TRUE, "On", words)
    if probed.observed is False:
        return Condition(
            "ExplicitLac",
            ConditionStatus.FALSE,
            "NotSeen",
            f"{words} according to their configuration, but {probed.text}: check the logs of owner brokers and bookies",
        )
    return Condition("ExplicitLac", ConditionStatus.TRUE, "On", f"{words}; {probed.text}")
