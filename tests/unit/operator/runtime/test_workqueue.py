"""The queue of pools."""

import threading

from hypothesis import given
from hypothesis import strategies as st
from readonly_operator.kube.names import PoolKey
from readonly_operator.runtime.workqueue import WorkQueue

from tests.support.clock import Clock
from tests.support.waiting import wait_until

A, B = PoolKey("team", "a"), PoolKey("team", "b")
EVENTS = st.tuples(st.sampled_from(["add", "get", "done", "wait"]), st.sampled_from([A, B]), st.integers(0, 3))


@given(st.lists(EVENTS, min_size=40, max_size=60))
def test_each_pool_comes_once_at_the_earliest_of_its_times_and_to_one_worker(events):
    clock, due, busy = Clock(), {}, set()
    queue = WorkQueue(clock)
    for event, key, seconds in events:
        match event:
            case "add":
                queue.add(key, seconds)
                due[key] = min(clock.now + seconds, due.get(key, float("inf")))
            case "get":
                ready = sorted((at, one) for one, at in due.items() if at <= clock.now and one not in busy)
                found = ready[0][1] if ready else None
                assert queue.get(0) == found
                if found:
                    busy.add(found)
                    del due[found]
            case "done" if busy:
                given_back = min(busy)
                queue.done(given_back)
                busy.remove(given_back)
            case "wait":
                clock.now += seconds
        assert len(queue) == sum(at <= clock.now for at in due.values())


def test_close_wakes_those_who_wait():
    queue = WorkQueue()
    got = []
    waiting = threading.Thread(target=lambda: got.append(queue.get()), daemon=True)
    waiting.start()
    wait_until(lambda: queue._changed._waiters)
    queue.close()
    waiting.join(timeout=5)
    assert got == [None]


def test_each_added_pool_and_each_wait_for_a_worker_is_reported(clock):
    added, waited = [], []
    queue = WorkQueue(clock, lambda: added.append(1), waited.append)
    queue.add(A)
    queue.add(A)
    queue.add(B, 5)
    assert len(added) == 2, "a pool that is queued already counts once"
    clock.now += 2
    assert queue.get(0) == A
    clock.now += 4
    assert queue.get(0) == B
    assert waited == [2, 1], "the time before a pool is due is no wait"
