"""The queue of pools."""

from __future__ import annotations

import threading

import pytest
from readonly_operator.kube.names import PoolKey
from readonly_operator.runtime.workqueue import WorkQueue

A, B = PoolKey("team", "a"), PoolKey("team", "b")


@pytest.fixture
def queue(clock):
    return WorkQueue(clock)


def test_a_pool_that_waits_is_not_queued_twice(queue):
    queue.add(A)
    queue.add(A)
    assert len(queue) == 1
    assert queue.get(0) == A
    queue.done(A)
    assert queue.get(0) is None


def test_pools_come_in_the_order_of_their_time(queue, clock):
    queue.add(A, 5)
    queue.add(B, 1)
    assert queue.get(0) is None
    clock.now += 6
    assert (queue.get(0), queue.get(0)) == (B, A)


def test_only_what_is_due_counts_as_waiting(queue, clock):
    queue.add(A, 5)
    queue.add(B)
    assert len(queue) == 1
    clock.now += 5
    assert len(queue) == 2


def test_sooner_wins_over_later(queue, clock):
    queue.add(A, 30)
    queue.add(A, 1)
    clock.now += 1
    assert queue.get(0) == A
    queue.done(A)
    clock.now += 60
    assert queue.get(0) is None


def test_later_does_not_put_off_what_is_due(queue):
    queue.add(A)
    queue.add(A, 30)
    assert queue.get(0) == A


def test_a_busy_pool_comes_again_only_when_it_is_given_back(queue):
    queue.add(A)
    assert queue.get(0) == A
    queue.add(A)
    assert queue.get(0) is None
    queue.done(A)
    assert queue.get(0) == A


def test_a_delay_that_is_asked_for_while_busy_counts_from_then(queue, clock):
    queue.add(A)
    queue.get(0)
    queue.add(A, 10)
    queue.done(A)
    assert queue.get(0) is None
    clock.now += 10
    assert queue.get(0) == A


def test_close_wakes_those_who_wait():
    queue = WorkQueue()
    got = []
    waiting = threading.Thread(target=lambda: got.append(queue.get()))
    waiting.start()
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
