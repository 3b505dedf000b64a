"""Cost of the readers at the owner brokers, with a pool and without.

Pure; CPU is microseconds per second, rates are per second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.sizing import measured
from readonly_engine.sizing.pool_cost import (
    GROUPED_ACKS,
    acks,
    frame_bytes,
    instances,
    owner_delivery_us,
    passing_bytes,
    pushed,
)
from readonly_engine.sizing.workload import SPLIT_TYPES

if TYPE_CHECKING:
    from readonly_engine.sizing.estimate import Case
    from readonly_engine.sizing.workload import Subscriptions, TopicLoad, Workload


def cpu_alone(work: Workload, case: Case) -> float:
    """Return the CPU that the readers cost the owners without a pool."""
    total = 0.0
    for load in work.loads:
        copies = sum(one.count for one in load.subscriptions)
        backlog = load.catch_up_bytes * (
            measured.OWNER_READ_ENTRY_US[case] / load.entry_bytes + measured.OWNER_READ_KB_US[case] / 1024
        )
        cpu = _dispatch(load, copies, case) + _acks(load, load.subscriptions, case) + backlog
        total += load.topics * cpu
    return total


def cpu_with_pool(work: Workload, processes: float, case: Case) -> float:
    """Return the CPU that the readers still cost the owners: acks, pushes at the tail, and what passes through."""
    total = 0.0
    for load in work.loads:
        copies = sum(one.count for one in load.passing) + pushed_copies(load, processes)
        total += load.topics * (_dispatch(load, copies, case) + _acks(load, load.subscriptions, case))
    return total


def pushed_copies(load: TopicLoad, processes: float) -> float:
    """Return the copies of each entry that an owner pushes to the pool."""
    return instances(load, processes) if pushed(load, processes) else 0.0


def bytes_alone(work: Workload) -> float:
    """Return the bytes per second that owners send to readers without a pool."""
    return sum(
        load.topics
        * (
            sum(one.count for one in load.subscriptions) * frame_bytes(load)
            + load.catch_up_bytes * (1 + measured.FRAME_BYTES / load.entry_bytes)
        )
        for load in work.loads
    )


def bytes_with_pool(work: Workload, processes: float) -> float:
    """Return the bytes per second that owners send to the pool."""
    return sum(
        load.topics * (passing_bytes(load) + pushed_copies(load, processes) * frame_bytes(load)) for load in work.loads
    )


def relayed_acks(work: Workload, case: Case) -> float:
    """Return the acks per second that the pool relays to owners."""
    return sum(load.topics * acks(load, one, case) for load in work.loads for one in load.subscriptions)


def pushed_messages(work: Workload, processes: float) -> float:
    """Return the messages per second that owners push to the pool."""
    return sum(load.topics * pushed_copies(load, processes) * load.messages for load in work.loads)


def _dispatch(load: TopicLoad, copies: float, case: Case) -> float:
    """Return the CPU of one topic's deliveries to this number of subscriptions."""
    if not copies or not load.entries:
        return 0.0
    more_kb = max(0.0, load.bytes / load.entries / 1024 - 1)
    delivery = owner_delivery_us(load.entries, case) + more_kb * measured.OWNER_KB_US[case]
    wakes = min(load.entries, measured.OWNER_MAX_WAKES) * measured.OWNER_WAKE_US[case]
    return wakes + load.entries * copies * delivery


def _acks(load: TopicLoad, subscriptions: tuple[Subscriptions, ...], case: Case) -> float:
    """Return the CPU of one topic's acks. Stock clients group those of 100 ms in one command, and ack a batch once."""
    cpu = 0.0
    for one in subscriptions:
        if one.type in SPLIT_TYPES:
            commands = min(load.entries, GROUPED_ACKS * one.consumers)
            cost = commands * measured.OWNER_ACK_COMMAND_US[case] + load.entries * measured.OWNER_ACKED_ENTRY_US[case]
            cpu += one.count * cost
        else:
            cpu += acks(load, one, case) * measured.OWNER_ACK_US[case]
    return cpu
