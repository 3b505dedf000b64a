"""Sleep of a pool: its next phase, from what Kubernetes and the brokers show. Pure.

Nothing is kept in memory or in the status: the phase is that of the objects, so a new process of the operator goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.kube.names import WAKER_NAME
from readonly_operator.kube.status import Condition, ConditionStatus

if TYPE_CHECKING:
    from readonly_operator.kube.kinds import Manifest

MIN_CHECK_SECONDS = 1.0
MAX_CHECK_SECONDS = 30.0
"""Interval between two questions about idle time."""


@dataclass(frozen=True, slots=True)
class Observed:
    """State of a pool that may sleep.

    Attributes:
        exists: whether the brokers' StatefulSet exists.
        replicas: its number of brokers.
        leads_to_waker: whether the Service for clients selects the waker.
        waker_ready: whether the waker is ready: no client needs the pool.
        ready_brokers: number of ready brokers.
        idle_seconds: since a client last needed a broker, over all brokers; None while one of them does not say so.
        silent: why it is None.
    """

    exists: bool
    replicas: int
    leads_to_waker: bool
    waker_ready: bool
    ready_brokers: int
    idle_seconds: float | None
    silent: str = ""


def leads_to_waker(service: Manifest | None) -> bool:
    """Return whether a Service selects a waker; None for no Service."""
    selector = ((service or {}).get("spec") or {}).get("selector") or {}
    return WAKER_NAME in selector.values()


def next_phase(observed: Observed, after: float) -> Phase:
    """Return the phase of a pool that may sleep.

    A pool without brokers whose waker is not ready wakes up: either a client needs it, or nobody would notice one.

    Args:
        observed: its state.
        after: idle time after which it sleeps, in seconds.
    """
    if observed.leads_to_waker and observed.exists:
        if observed.replicas == 0:
            return Phase.ASLEEP if observed.waker_ready else Phase.WAKING
        return Phase.AWAKE if observed.ready_brokers else Phase.WAKING
    if observed.replicas == 0 or observed.idle_seconds is None or observed.idle_seconds < after:
        return Phase.AWAKE
    return Phase.ASLEEP if observed.waker_ready else Phase.FALLING_ASLEEP


@dataclass(frozen=True, slots=True)
class Sleep:
    """Decision about a pool that may sleep.

    Attributes:
        phase: its phase from now on.
        condition: its condition Asleep.
        check_seconds: when to look again without an event; 0 for never.
    """

    phase: Phase
    condition: Condition
    check_seconds: float

    @classmethod
    def of(cls, observed: Observed, after: float) -> Sleep:
        """Return the decision for a pool in this state; see `next_phase`."""
        phase = next_phase(observed, after)
        return cls(phase, _condition(phase, observed, after), _check_seconds(phase, observed, after))


def _check_seconds(phase: Phase, observed: Observed, after: float) -> float:
    if phase is not Phase.AWAKE:
        return 0.0 if phase is Phase.ASLEEP else MAX_CHECK_SECONDS
    if observed.idle_seconds is None:
        return MAX_CHECK_SECONDS
    return min(max(after - observed.idle_seconds, MIN_CHECK_SECONDS), MAX_CHECK_SECONDS)


def _condition(phase: Phase, observed: Observed, after: float) -> Condition:
    if phase is Phase.ASLEEP:
        words = "no broker runs; a client that looks a topic up wakes the pool"
        return Condition("Asleep", ConditionStatus.TRUE, "Asleep", words)
    if phase is Phase.WAKING:
        words = "a client needs the pool, or the waker is not ready; clients wait at the waker until a broker is ready"
        return Condition("Asleep", ConditionStatus.FALSE, "Waking", words)
    if phase is Phase.FALLING_ASLEEP:
        words = "no client needs the pool; the brokers run until the waker (pod NAME-waker-0) is ready"
        return Condition("Asleep", ConditionStatus.FALSE, "FallingAsleep", words)
    words = f"the pool sleeps {after:g} s after the last client that needs it"
    if observed.silent:
        words = f"it is unknown whether clients need the pool: {observed.silent}"
    return Condition("Asleep", ConditionStatus.FALSE, "Awake", words)
