"""Cost of a pool: examples that were calculated by hand, and properties of every load."""

from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from readonly_engine.sizing import measured
from readonly_engine.sizing.estimate import Case, Estimate, estimated
from readonly_engine.sizing.plan import brokers_needed, make_plan
from readonly_engine.sizing.pool_cost import (
    MAX_PROCESSES,
    SECOND_US,
    bookie_reads,
    consumer_bytes,
    largest_unit,
    network_in,
    network_out,
    process_cpu,
    processes_needed,
    pushed,
    wake_us,
)
from readonly_engine.sizing.workload import Policy, Subscriptions, SubscriptionType, TopicLoad, Workload

ONE = Policy(min_brokers=1)


def load_of(readers=0.0, rate=0.0, size=1024, *, topics=1, shared=0, consumers=1, batch=1.0, **more) -> TopicLoad:
    """A load of Readers and Shared subscriptions; the rate is of each topic."""
    subscriptions = (
        *((Subscriptions(SubscriptionType.READER, readers),) if readers else ()),
        *((Subscriptions(SubscriptionType.SHARED, shared, consumers),) if shared else ()),
    )
    return TopicLoad(topics, rate, rate * size, batch, subscriptions, **more)


def work_of(*loads: TopicLoad, connections=None) -> Workload:
    return Workload(loads, connections)


BACKLOG = replace(load_of(1), catch_up_bytes=100e6, catch_up_readers=1, entry_bytes=1000.0)
WAKES = 250 * 184
"""They are bounded by 4 ms."""


@pytest.mark.parametrize(
    ("load", "cpu", "reads"),
    [
        # 1,000/s to 100 readers: their writes take 5.2 % of a core.
        (load_of(100, 1000), 100 * 2.0 + WAKES + 1000 * (0.9 + 0.65) + 100 * 1000 * (0.01 + 0.13) + 52_000, 1010),
        # 10/s to 1,000 readers: one write for each message and reader. The owner pushes the entries.
        (load_of(1000, 10), 1000 * 2.0 + 10 * 184 + 1000 * 10 * (0.01 + 0.13 + 6.6), 0),
        # 16 KB, 1,000/s to 50 readers: 5.2 % of a core are 158 writes a second and reader, of 6.3 entries each: more than 64 KB.
        (
            load_of(50, 1000, 16 * 1024),
            50 * 2.0 + WAKES + 1000 * (0.9 + 16 * 0.65) + 50 * 1000 * (0.01 + 16 * 0.065) + 52_000,
            None,
        ),
        # 2,000/s to 100 consumers of a Shared subscription: dispatches are 28 ms apart, and each message has an ack.
        (
            load_of(0, 2000, shared=1, consumers=100),
            100 * 2.0 + 184 / 28e-3 + 2000 * (0.9 + 0.65) + 2000 * (0.01 + 0.13) + 2000 * 6.6 + 2000 * 8.0,
            None,
        ),
        # 100 MB/s of entries of 1,000 bytes.
        (BACKLOG, 2.0 + 100_000 * 0.9 + 100e6 / 1024 * 0.65, 100_000),
    ],
)
def test_cpu_and_reads_by_hand(load, cpu, reads):
    work = work_of(load)
    assert process_cpu(work, 1, Case.EXPECTED) == pytest.approx(1000 + 0.73 + cpu)
    assert reads is None or bookie_reads(work, 1, Case.EXPECTED) == pytest.approx(reads)


def test_the_network_by_hand():
    work = work_of(load_of(100, 1000))
    assert (network_in(work, 1), network_out(work)) == (1_024_000, 100 * (1_024_000 + 1000 * 100))
    assert network_out(work_of(BACKLOG)) == pytest.approx(110e6)


def test_consumers_need_less_memory_each_where_there_are_many():
    assert consumer_bytes(1, Case.EXPECTED) == consumer_bytes(10_000, Case.EXPECTED) == 7200
    assert consumer_bytes(40_000, Case.EXPECTED) == pytest.approx(4400)
    assert consumer_bytes(1e7, Case.EXPECTED) == 4400
    totals = [count * consumer_bytes(count, Case.EXPECTED) for count in (9_000, 11_000, 20_000, 39_000, 41_000)]
    assert totals == sorted(totals)


def test_acks_of_exclusive_consumers_by_hand():
    one = Subscriptions(SubscriptionType.EXCLUSIVE, 10)
    acking = work_of(TopicLoad(1, 100, 102_400, 1.0, (one,)))
    silent = work_of(load_of(10, 100))
    by_case = [process_cpu(acking, 1, case) - process_cpu(silent, 1, case) for case in Case]
    # Grouped acks: 10 per second and consumer; else one for each message. Readers in the high case: grouped ones.
    assert by_case == pytest.approx([10 * 10 * 1.0, 10 * 100 * 5.9, 10 * (100 - 10) * 8.0])


def test_processes_by_hand():
    """Each of P processes has wakes and reads of its own; the rest is divided."""
    work = work_of(load_of(10_000, 100))
    found = processes_needed(work, ONE, Case.EXPECTED)
    assert found > 1
    assert process_cpu(work, found, Case.EXPECTED) <= 0.6 * SECOND_US < process_cpu(work, found - 1, Case.EXPECTED)


def test_the_network_limits_too():
    """20 x 10 MB/s are 201 MB/s with frames: 4 processes at half of 100 MB/s need 5."""
    work = work_of(load_of(20, 100, 100_000))
    wide, narrow = replace(ONE, utilization=0.5), replace(ONE, utilization=0.5, broker_network=100e6)
    assert network_out(work) == pytest.approx(200.2e6)
    assert processes_needed(work, wide, Case.EXPECTED) == 1
    assert processes_needed(work, narrow, Case.EXPECTED) == 5
    assert brokers_needed(work, replace(narrow, workers=2), Case.EXPECTED) == 5  # workers share the network


@pytest.mark.parametrize(
    ("readers", "rate", "size", "owner"),
    [
        (1, 1500, 1024, True),
        (1, 1501, 1024, False),
        (4, 400, 1024, True),
        (4, 401, 1024, False),
        (1, 100, 40_001, False),
    ],
)
def test_the_owner_pushes_few_messages_only(readers, rate, size, owner):
    assert pushed(load_of(readers, rate, size), 1) is owner


def test_wakes_are_interpolated_between_the_measured_numbers_of_topics():
    assert wake_us(0, Case.EXPECTED) == wake_us(1, Case.EXPECTED) == 184
    assert wake_us(100, Case.EXPECTED) == pytest.approx(271)
    assert 271 < wake_us(300, Case.EXPECTED) < 343
    assert wake_us(1e6, Case.HIGH) == 503


def test_the_largest_load_of_one_process():
    small, large = load_of(1, 10), load_of(0, 200_000, shared=1, consumers=50)
    assert largest_unit(work_of(small), Case.EXPECTED).name == "a topic"
    unit = largest_unit(work_of(small, large), Case.EXPECTED)
    assert unit.name == "a Shared subscription"
    assert unit.cpu > SECOND_US
    reader = replace(load_of(4), catch_up_bytes=4e9, catch_up_readers=2)
    assert largest_unit(work_of(reader), Case.EXPECTED).name == "a backlog"


loads = st.builds(
    load_of,
    readers=st.integers(0, 5000),
    rate=st.floats(0, 20_000),
    size=st.floats(1, 100_000),
    topics=st.integers(1, 500),
    shared=st.integers(0, 5),
    consumers=st.integers(1, 200),
    batch=st.floats(1, 100),
    catch_up_bytes=st.floats(0, 1e9),
)


def costs(work: Workload) -> list[float]:
    return [
        *(processes_needed(work, ONE, case) for case in Case),
        *(process_cpu(work, processes, case) for case in Case for processes in (1, 2, 7, 100)),
        network_out(work),
    ]


@given(
    load=loads,
    change=st.sampled_from(["readers", "shared", "rate", "size", "topics", "backlog"]),
    factor=st.floats(1, 10),
)
def test_more_load_never_needs_less(load, change, factor):
    by_type = {one.type: one.count for one in load.subscriptions}
    more = {
        "readers": replace(
            load,
            subscriptions=(
                *(one for one in load.subscriptions if one.type is not SubscriptionType.READER),
                Subscriptions(SubscriptionType.READER, (by_type.get(SubscriptionType.READER, 0) + 1) * factor),
            ),
        ),
        "shared": replace(
            load, subscriptions=(*load.subscriptions, Subscriptions(SubscriptionType.KEY_SHARED, 1, 10 * factor))
        ),
        "rate": replace(load, messages=load.messages * factor, bytes=load.bytes * factor),
        "size": replace(load, bytes=load.bytes * factor),
        "topics": replace(load, topics=load.topics * factor),
        "backlog": replace(load, catch_up_bytes=load.catch_up_bytes * factor),
    }[change]
    for before, after in zip(costs(work_of(load)), costs(work_of(more)), strict=True):
        assert after >= before * (1 - 1e-9)


@given(load=loads, count=st.integers(1, 300), case=st.sampled_from(Case))
def test_more_processes_never_cost_each_more(load, count, case):
    work = work_of(load)
    assert process_cpu(work, count + 1, case) <= process_cpu(work, count, case) * (1 + 1e-9)


@pytest.mark.parametrize("readers", [4_210, 42_100])
def test_the_number_of_processes_has_a_bound(readers):
    work = work_of(
        load_of(readers, 9096.0, 20_877, topics=500, shared=5, consumers=58, batch=70.0, catch_up_bytes=429.0)
    )
    assert processes_needed(work, ONE, Case.HIGH) == MAX_PROCESSES


@given(load=loads, case=st.sampled_from(Case))
@example(load=load_of(rate=5e-324, batch=2.0, shared=1), case=Case.LOW)  # so few messages that they are no entry
def test_the_number_of_processes_is_the_smallest_one(load, case):
    work = work_of(load)
    found = processes_needed(work, ONE, case)
    assume(found < MAX_PROCESSES)  # advice.py says that no number is enough
    limit = ONE.utilization * SECOND_US
    assert process_cpu(work, found, case) <= limit * (1 + 1e-9)
    assume(found > 1)
    network = max(network_in(work, found - 1), network_out(work)) / (found - 1)
    assert process_cpu(work, found - 1, case) > limit or network > ONE.utilization * ONE.broker_network


@given(load=loads, workers=st.integers(1, 16))
def test_estimates_have_an_order(load, workers):
    plan = make_plan(work_of(load), Policy(workers=workers))
    for of in (plan.pool, plan.owner):
        for name in of.__slots__:
            low, expected, high = getattr(of, name)
            assert low <= expected <= high, name
            assert low >= -1e-6, name
    assert plan.owner.share_relieved.high <= 1


def test_the_constants_have_an_order():
    for name, value in vars(measured).items():
        points = [row[-1] for row in value] if isinstance(value, tuple) and not isinstance(value, Estimate) else [value]
        for one in points:
            if isinstance(one, Estimate):
                assert one.low <= one.expected <= one.high, name
    assert estimated(lambda case: -case) == Estimate(-2, -1, 0)
