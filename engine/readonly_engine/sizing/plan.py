"""The plan of a pool: its size, its cost, and the relief of the owner brokers. Pure: a load in, estimates out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.sizing import owner_cost
from readonly_engine.sizing.advice import Advice, advise
from readonly_engine.sizing.estimate import Case, Estimate, estimated
from readonly_engine.sizing.memory import broker_bytes, cache_bytes
from readonly_engine.sizing.pool_cost import (
    SECOND_US,
    bookie_reads,
    network_in,
    network_out,
    process_cpu,
    processes_needed,
)

if TYPE_CHECKING:
    from readonly_engine.sizing.workload import Policy, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """Estimates for a pool: all brokers unless the name says otherwise. CPU is in cores, memory in bytes, rates are per second.

    Attributes:
        brokers: brokers.
        workers: processes of all brokers; each may use one core.
        cpu: cores in use.
        broker_cpu: cores in use of each broker.
        broker_memory: memory of each broker, with its cache.
        broker_cache: entry cache of each broker.
        network_in: bytes from owners and bookies.
        network_out: bytes to clients.
        bookie_reads: entries read at the bookies.
    """

    brokers: Estimate
    workers: Estimate
    cpu: Estimate
    broker_cpu: Estimate
    broker_memory: Estimate
    broker_cache: Estimate
    network_in: Estimate
    network_out: Estimate
    bookie_reads: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerPlan:
    """Estimates for all owner brokers of the topics: the readers' part of their load.

    Attributes:
        cpu_alone: cores without a pool.
        cpu_left: cores that remain with the pool.
        cpu_relieved: cores that they are relieved of.
        share_relieved: share of the readers' CPU that they are relieved of, 0 to 1.
        bytes_alone: bytes sent to readers without a pool.
        bytes_left: bytes sent to the pool.
        bytes_relieved: bytes that they are relieved of.
        acks: acks that the pool relays to them.
        pushed: messages that they push to the pool.
        consumers: zero-permit consumers of the pool.
        passing: subscriptions that pass through to them.
    """

    cpu_alone: Estimate
    cpu_left: Estimate
    cpu_relieved: Estimate
    share_relieved: Estimate
    bytes_alone: Estimate
    bytes_left: Estimate
    bytes_relieved: Estimate
    acks: Estimate
    pushed: Estimate
    consumers: Estimate
    passing: Estimate


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan.

    Attributes:
        work: the load.
        policy: the size of a broker.
        pool: the pool.
        owner: the owner brokers.
        advice: whether the pool suits the load.
    """

    work: Workload
    policy: Policy
    pool: PoolPlan
    owner: OwnerPlan
    advice: Advice


def brokers_needed(work: Workload, policy: Policy, case: Case) -> int:
    """Return the number of brokers."""
    return max(policy.min_brokers, -(-processes_needed(work, policy, case) // policy.workers))


def make_plan(work: Workload, policy: Policy) -> Plan:
    """Return the plan for a load."""
    brokers = {case: brokers_needed(work, policy, case) for case in Case}
    processes = {case: brokers[case] * policy.workers for case in Case}

    def alone(case: Case) -> float:
        return owner_cost.cpu_alone(work, case) / SECOND_US

    def left(case: Case) -> float:
        return owner_cost.cpu_with_pool(work, processes[case], case) / SECOND_US

    def bytes_left(case: Case) -> float:
        return owner_cost.bytes_with_pool(work, processes[case])

    bytes_alone = owner_cost.bytes_alone(work)
    pool = PoolPlan(
        brokers=estimated(lambda case: brokers[case]),
        workers=estimated(lambda case: processes[case]),
        cpu=estimated(lambda case: process_cpu(work, processes[case], case) * processes[case] / SECOND_US),
        broker_cpu=estimated(lambda case: process_cpu(work, processes[case], case) * policy.workers / SECOND_US),
        broker_memory=estimated(lambda case: broker_bytes(work, policy, processes[case], case)),
        broker_cache=estimated(lambda case: cache_bytes(work, policy, processes[case], case)),
        network_in=estimated(lambda case: network_in(work, processes[case])),
        network_out=estimated(lambda _: network_out(work)),
        bookie_reads=estimated(lambda case: bookie_reads(work, processes[case], case)),
    )
    owner = OwnerPlan(
        cpu_alone=estimated(alone),
        cpu_left=estimated(left),
        cpu_relieved=estimated(lambda case: alone(case) - left(case)),
        share_relieved=estimated(lambda case: 1 - left(case) / alone(case) if alone(case) else 0.0),
        bytes_alone=estimated(lambda _: bytes_alone),
        bytes_left=estimated(bytes_left),
        bytes_relieved=estimated(lambda case: bytes_alone - bytes_left(case)),
        acks=estimated(lambda case: owner_cost.relayed_acks(work, case)),
        pushed=estimated(lambda case: owner_cost.pushed_messages(work, processes[case])),
        consumers=estimated(lambda _: work.consumers),
        passing=estimated(lambda _: sum(load.topics * sum(one.count for one in load.passing) for load in work.loads)),
    )
    advice = advise(work, processes[Case.EXPECTED], pool.cpu, owner.cpu_relieved, owner.bytes_relieved)
    return Plan(work, policy, pool, owner, advice)
