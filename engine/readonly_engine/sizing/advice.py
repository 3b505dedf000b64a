"""Advice: whether a pool suits a load, and what limits it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from readonly_engine.sizing import measured
from readonly_engine.sizing.estimate import Case
from readonly_engine.sizing.pool_cost import MAX_PROCESSES, SECOND_US, largest_unit, pushed
from readonly_engine.sizing.workload import SPLIT_TYPES, SubscriptionType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.sizing.estimate import Estimate
    from readonly_engine.sizing.workload import TopicLoad, Workload

MIN_RELIEF_CORES: Final = 0.05
"""Relief of the owners' CPU below which a pool is not worth its brokers. Chosen, not measured."""

MIN_RELIEF_BYTES: Final = 1e6
"""Relief of the owners' network below which a pool is not worth its brokers, in bytes per second. Chosen, not measured."""

FEW_READERS: Final = 2
"""Subscriptions of a topic up to which nothing, or little, is shared: docs/explanation/performance-growth.md, Few readers."""

MANY_SUBSCRIPTIONS: Final = 10_000
"""Durable subscriptions of a topic from which on owners do not keep up with their acks: the same page, Local subscriptions."""

MAX_NAMED: Final = 5
_DURABLE: Final = frozenset(SubscriptionType) - {SubscriptionType.READER}


class Suitability(StrEnum):
    """Whether a pool suits a load."""

    YES = "yes"
    MAYBE = "maybe"
    """It relieves the owners, but costs more CPU than they save."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice about a whole load.

    Attributes:
        suits: whether a pool suits it.
        reasons: the reasons, sentences.
        limits: limits of the plan, sentences.
    """

    suits: Suitability
    reasons: tuple[str, ...]
    limits: tuple[str, ...]


def reason_against(load: TopicLoad) -> str:
    """Return the reason why topics of this load do better without a pool; empty without one."""
    if not load.subscriptions and not load.catch_up_bytes:
        return "no consumers"
    if not load.readers and not load.catch_up_bytes:
        return f"all subscriptions pass through ({load.passing[0].passthrough})"
    if not load.messages and not load.catch_up_bytes:
        return "no messages"
    if load.readers <= 1 and not load.catch_up_bytes and pushed(load, 1):
        return "one subscription, and the owner pushes its messages"
    return ""


def advise(work: Workload, processes: float, cost: Estimate, relief: Estimate, relief_bytes: Estimate) -> Advice:
    """Return the advice about a load.

    Args:
        work: the load.
        processes: the expected number of processes of the pool.
        cost: cores that the pool uses.
        relief: cores that owners are relieved of.
        relief_bytes: bytes per second that owners are relieved of.
    """
    against = [(load, reason) for load in work.loads if (reason := reason_against(load))]
    limits = [*work.notes, *_limits(work, processes), *_left(work, against)]
    if len(against) == len(work.loads):
        reasons = dict.fromkeys(reason for _, reason in against)
        found = [f"Each topic does better at its owner: {'; '.join(reasons) or 'there are no topics'}."]
        return Advice(Suitability.NO, tuple(found), tuple(limits))
    words = f"The pool costs {_cores(cost)} and relieves owners of {_cores(relief)}."
    if relief.expected < MIN_RELIEF_CORES and relief_bytes.expected < MIN_RELIEF_BYTES:
        low = f"The rates are low: the relief is below {MIN_RELIEF_CORES:g} cores and {MIN_RELIEF_BYTES / 1e6:g} MB/s."
        return Advice(Suitability.NO, (low, words), tuple(limits))
    if cost.expected > relief.expected:
        return Advice(Suitability.MAYBE, (words, "It pays only where owners lack CPU or network."), tuple(limits))
    return Advice(Suitability.YES, (words,), tuple(limits))


def _cores(estimate: Estimate) -> str:
    return f"{estimate.low:,.2f} to {estimate.high:,.2f} cores"


def _limits(work: Workload, processes: float) -> list[str]:
    found = []
    unit = largest_unit(work, Case.EXPECTED)
    if unit.cpu > SECOND_US:
        found.append(
            f"The messages of {unit.name} need {unit.cpu / SECOND_US:.1f} cores, but one process serves it to a consumer: use "
            "more partitions, or larger batches."
        )
    if processes >= MAX_PROCESSES:
        found.append(f"No number of processes up to {MAX_PROCESSES:,} is enough.")
    if any(load.split for load in work.loads):
        found.append("One broker serves a Shared or Key_Shared subscription of a topic. More brokers do not divide it.")
    most = max((sum(one.count for one in load.served if one.type in _DURABLE) for load in work.loads), default=0)
    if most >= MANY_SUBSCRIPTIONS:
        found.append(f"A topic has {most:,.0f} durable subscriptions: consider local cursors (`cursors: Local`).")
    if any(load.passing for load in work.loads):
        found.append("Subscriptions that pass through cost their owner as much as before, and the pool their bytes.")
    if any(load.readers and load.readers <= FEW_READERS for load in work.loads):
        found.append("Topics with one or two subscriptions share little: prefer topics with more readers.")
    if any(one.type in SPLIT_TYPES and load.batch > 1 for load in work.loads for one in load.served):
        found.append("For batched messages a Shared subscription costs a pool about as much as its owner.")
    return [*found, *_deviations(work)]


def _deviations(work: Workload) -> list[str]:
    """Return a sentence for the nearest bench of each kind of load whose CPU at the owner the model does not explain."""
    topics = sum(load.topics for load in work.loads if load.messages and 0 < load.readers <= FEW_READERS)
    near = {}
    for load in work.loads:
        consumers = [one.consumers for one in load.subscriptions if one.type in SPLIT_TYPES]
        if load.messages and consumers:
            one = _nearest(load.entries / max(*consumers, 1), split=True, batched=load.batch > 1)
        elif load.messages and 0 < load.readers <= FEW_READERS:
            one = _nearest(topics, split=False, batched=False)
        else:
            continue
        near[one.shape] = one
    return [
        f"Owner CPU in the nearest bench ({shape}): {one.measured.expected:.1f} times the plan, {one.measured.low:.1f} to "
        f"{one.measured.high:.1f} in its rounds."
        for shape, one in near.items()
    ]


def _nearest(scale: float, *, split: bool, batched: bool) -> measured.OwnerDeviation:
    found = [one for one in measured.OWNER_DEVIATIONS if (one.split, one.batched) == (split, batched)]
    return min(found, key=lambda one: abs(scale - one.scale) / (scale + one.scale))


def _left(work: Workload, against: Sequence[tuple[TopicLoad, str]]) -> list[str]:
    """Return sentences about topics that should stay at their owners, where others should not."""
    if not against or len(against) == len(work.loads):
        return []
    count = sum(load.topics for load, _ in against)
    names = [f"{load.name} ({reason})" for load, reason in against if load.name]
    listed = ", ".join(names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return [f"Do not bind {count:,.0f} of the topics: {listed}{more}."] if names else []
