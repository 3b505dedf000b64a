"""Cost of a pool by its number of processes. Pure; CPU is microseconds per second, rates are per second.

Consumers are assumed to be spread evenly, as brokers spread them. A process follows a topic once, for any number of its readers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.broker.tail.budget import FEW_READERS, MANY_READERS, PushRate
from readonly_engine.sizing import measured
from readonly_engine.sizing.estimate import Case
from readonly_engine.sizing.workload import SPLIT_TYPES, SubscriptionType
from readonly_engine.topic.tail_batch import NOTIFYING_SHARE, PAUSE_S

if TYPE_CHECKING:
    from readonly_engine.sizing.estimate import Estimate
    from readonly_engine.sizing.workload import Policy, Subscriptions, TopicLoad, Workload

SECOND_US: Final = 1e6
MAX_DISPATCHES: Final = 1 / PAUSE_S[0]
"""Dispatches per second of a topic's tail, at most."""

MIN_DISPATCHES: Final = 1 / PAUSE_S[1]
"""Dispatches per second where they are expensive, or all subscriptions are Shared or Key_Shared (FlushInterval)."""

GROUPED_ACKS: Final = 10.0
"""Acks per second of one consumer that acks cumulatively: stock clients group acks for 100 ms."""

MAX_PROCESSES: Final = 1_000_000
"""Bound of the search. It is far beyond any pool."""

_FEW: Final = PushRate()


class Unit(NamedTuple):
    """Load that cannot be divided among processes.

    Attributes:
        name: the topic or subscription, for a message.
        cpu: its CPU.
    """

    name: str
    cpu: float


def wake_us(topics: float, case: Case) -> float:
    """Return the cost of a tail batch with this number of active topics, interpolated between the measured numbers."""
    return _interpolated(measured.WAKE_US, topics, case)


def instances(load: TopicLoad, processes: float) -> float:
    """Return the number of processes that follow one of these topics."""
    return min(processes, load.readers)


def pushed(load: TopicLoad, processes: float) -> bool:
    """Whether owners push the entries of these topics, and bookies are not read (broker/tail/budget.py)."""
    if not load.readers or not load.messages:
        return False
    few = load.readers / instances(load, processes) <= FEW_READERS
    rate = _FEW if few else MANY_READERS
    return load.messages <= rate.messages and load.bytes <= rate.bytes


def acks(load: TopicLoad, one: Subscriptions, case: Case) -> float:
    """Return the acks per second of these subscriptions in one topic.

    Stock Readers ack in groups; whether other consumers do is not known.
    """
    grouped = one.count * min(load.messages, GROUPED_ACKS)
    if one.type is SubscriptionType.READER:
        return grouped if case is Case.HIGH else 0.0
    if one.type in SPLIT_TYPES or case is not Case.LOW:
        return one.count * load.messages
    return grouped


def process_cpu(work: Workload, processes: float, case: Case) -> float:
    """Return the CPU of each of these processes."""
    wake = wake_us(work.active_topics, case)
    cpu = measured.PROCESS_US[case] + work.client_connections / processes * measured.CONNECTION_US[case]
    for load in work.loads:
        cpu += load.topics * _topic_cpu(load, processes, wake, case)
    return cpu


def _topic_cpu(load: TopicLoad, processes: float, wake: float, case: Case) -> float:
    """Return the mean CPU that one of these topics costs each process."""
    cpu = load.catch_up_bytes / processes * _read_byte_us(load.entry_bytes, case)
    if not load.readers:
        return cpu
    following = instances(load, processes)
    share = following / processes
    cpu += share * measured.OPEN_TOPIC_US[case]
    if not load.entries:
        return cpu
    entry_kb = load.bytes / load.entries / 1024
    dispatches = MAX_DISPATCHES if load.single else MIN_DISPATCHES
    cpu += share * min(load.entries, dispatches) * wake
    if not pushed(load, processes):
        cpu += share * load.entries * (measured.READ_ENTRY_US[case] + entry_kb * measured.READ_KB_US[case])
    if load.single:
        writes = _writes(load.entries, load.single / following * measured.WRITE_US[case])
        cpu += load.single / processes * _delivery_us(load, writes, case)
    for one in load.served:
        if one.type in SPLIT_TYPES:
            writes = min(load.entries, MIN_DISPATCHES * one.consumers)
            cost = _delivery_us(load, writes, case) + load.messages * measured.SHARED_MESSAGE_US[case]
            cpu += one.count / processes * cost
        else:
            cpu += acks(load, one, case) / processes * measured.ACK_US[case]
    return cpu


def _delivery_us(load: TopicLoad, writes: float, case: Case) -> float:
    """Return the CPU per second of the deliveries to one subscription, with this number of writes per second."""
    kb = load.bytes / 1024
    sent = kb * sent_kb_us(kb / writes, case)
    return writes * measured.WRITE_US[case] + load.entries * measured.MESSAGE_US[case] + sent


def _writes(entries: float, cost: float) -> float:
    """Return the writes per second to each consumer, where a dispatch to all of a process costs this much (FlushInterval)."""
    affordable_rate = NOTIFYING_SHARE * SECOND_US / cost if cost else MAX_DISPATCHES
    return min(entries, max(MIN_DISPATCHES, min(affordable_rate, MAX_DISPATCHES)))


def _read_byte_us(entry_bytes: float, case: Case) -> float:
    return measured.READ_ENTRY_US[case] / entry_bytes + measured.READ_KB_US[case] / 1024


def network_in(work: Workload, processes: float) -> float:
    """Return the bytes per second that all processes receive, from owners and bookies together."""
    return sum(
        load.topics * (instances(load, processes) * load.bytes + load.catch_up_bytes + passing_bytes(load))
        for load in work.loads
    )


def network_out(work: Workload) -> float:
    """Return the bytes per second that all processes send to clients."""
    total = 0.0
    for load in work.loads:
        backlog = load.catch_up_bytes * (1 + measured.FRAME_BYTES / load.entry_bytes)
        total += load.topics * (load.readers * frame_bytes(load) + backlog + passing_bytes(load))
    return total


def frame_bytes(load: TopicLoad) -> float:
    """Return the bytes per second that one subscription of a topic gets, with their frames."""
    return load.bytes + load.entries * measured.FRAME_BYTES


def passing_bytes(load: TopicLoad) -> float:
    """Return the bytes per second of a topic that pass through the pool."""
    return sum(one.count for one in load.passing) * frame_bytes(load)


def bookie_reads(work: Workload, processes: float, case: Case) -> float:
    """Return the entries per second that the pool reads at the bookies."""
    total = 0.0
    for load in work.loads:
        tail = 0.0 if pushed(load, processes) else instances(load, processes) * load.entries
        total += load.topics * (tail * measured.READS_PER_ENTRY[case] + load.catch_up_bytes / load.entry_bytes)
    return total


def processes_needed(work: Workload, policy: Policy, case: Case) -> int:
    """Return the number of processes at which each is within the planned share of a core and of the network.

    MAX_PROCESSES also means that no number is enough.
    """
    cpu = policy.utilization * SECOND_US
    network = policy.utilization * policy.broker_network / policy.workers

    def enough(count: int) -> bool:
        carried = max(network_in(work, count), network_out(work)) / count
        return process_cpu(work, count, case) <= cpu and carried <= network

    least, most = 0, 1
    while not enough(most):
        if most == MAX_PROCESSES:
            return MAX_PROCESSES
        least, most = most, min(2 * most, MAX_PROCESSES)
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def largest_unit(work: Workload, case: Case) -> Unit:
    """Return the largest load that one process must carry, whatever their number."""
    found = Unit("", 0.0)
    wake = wake_us(work.active_topics, case)
    for load in work.loads:
        backlog = load.catch_up_bytes / max(1.0, load.catch_up_readers) * _read_byte_us(load.entry_bytes, case)
        found = max(found, Unit("a backlog", backlog), key=lambda one: one.cpu)
        if not load.readers or not load.entries:
            continue
        entry_kb = load.bytes / load.entries / 1024
        dispatches = min(load.entries, MAX_DISPATCHES if load.single else MIN_DISPATCHES)
        sent_kb = sent_kb_us(load.bytes / 1024 / dispatches, case)
        follow = dispatches * wake
        follow += load.entries * (
            measured.READ_ENTRY_US[case] + measured.MESSAGE_US[case] + entry_kb * (measured.READ_KB_US[case] + sent_kb)
        )
        found = max(found, Unit("a topic", follow), key=lambda one: one.cpu)
        for one in load.served:
            if one.type in SPLIT_TYPES:
                writes = min(load.entries, MIN_DISPATCHES * one.consumers) * measured.WRITE_US[case]
                cost = follow + writes + load.messages * measured.SHARED_MESSAGE_US[case]
                found = max(found, Unit(f"a {one.type} subscription", cost), key=lambda one: one.cpu)
    return found


def _interpolated(points: tuple[tuple[float, Estimate], ...], at: float, case: Case) -> float:
    """Return a value between measured points, by the logarithms of both; the outermost value beyond them."""
    below = points[0]
    for above in points:
        if at <= above[0]:
            if above is below:
                return above[1][case]
            share = math.log(at / below[0]) / math.log(above[0] / below[0])
            return math.exp(math.log(below[1][case]) * (1 - share) + math.log(above[1][case]) * share)
        below = above
    return points[-1][1][case]


def sent_kb_us(write_kb: float, case: Case) -> float:
    """Return the cost of 1,024 bytes to one consumer, by the KB of a write."""
    return _interpolated(measured.SENT_KB_US, write_kb, case)


def consumer_bytes(consumers: float, case: Case) -> float:
    """Return the memory of one consumer, by the consumers of a process."""
    return _interpolated(measured.CONSUMER_BYTES, consumers, case)


def owner_delivery_us(entries: float, case: Case) -> float:
    """Return the owner's cost of one entry to one consumer, by the entries per second of the topic."""
    return _interpolated(measured.OWNER_DELIVERY_US, entries, case)
