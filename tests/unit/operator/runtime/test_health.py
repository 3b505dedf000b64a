"""Health of a process that waits, starts, or leads."""

import socket

import pytest
from readonly_operator.cluster.fetch import FetchError, get
from readonly_operator.runtime import health as module
from readonly_operator.runtime.health import LOOP_SECONDS, START_SECONDS, Health, answering, local_host


class Threads:
    """Threads that may be stuck."""

    healthy = True

    def alive(self) -> bool:
        return self.healthy


@pytest.fixture
def health(clock):
    return Health(clock)


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_process_that_waits_for_the_lease_is_alive_and_ready(health, clock):
    clock.now += 10 * START_SECONDS
    assert (health.problem(), health.unready()) == ("", "")


def test_a_leader_is_ready_once_it_has_listed_the_objects(health, clock):
    clock.now += 1000
    health.lead()
    assert (health.problem(), health.unready()) == ("", "the objects are not listed yet")
    health.run(threads := Threads())
    assert (health.problem(), health.unready()) == ("", "")
    threads.healthy = False
    assert health.problem() == health.unready() == "a worker is stuck or has ended"


def test_a_start_that_takes_too_long_and_a_stuck_event_loop_are_no_life(health, clock):
    health.lead()
    clock.now += START_SECONDS + 1
    assert health.problem() == "the event loop is stuck"
    health.beat()
    assert health.problem() == "the start takes too long"
    health.run(Threads())
    assert health.problem() == ""
    clock.now += LOOP_SECONDS + 1
    assert health.problem() == "the event loop is stuck"


def test_watches_that_begin_anew_have_the_time_of_a_start(health, clock):
    health.lead()
    health.run(Threads())
    clock.now += 10 * START_SECONDS
    health.run(None)
    health.beat()
    assert (health.problem(), health.unready()) == ("", "the objects are not listed yet")


def test_both_probes_are_answered_and_the_address_is_free_afterwards(health, clock, port):
    url = f"http://127.0.0.1:{port}"
    for _ in range(2):
        with answering(health, f"{url}/healthz"):
            assert get(f"{url}/healthz", 5) == (200, b"ok")
            assert get(f"{url}/readyz", 5) == (200, b"ok")
            assert get(f"{url}/other", 5)[0] == 404
    with answering(health, f"{url}/healthz"):
        health.lead()
        assert get(f"{url}/healthz", 5)[0] == 200
        assert get(f"{url}/readyz", 5) == (503, b"the objects are not listed yet")
        clock.now += 1000
        assert get(f"{url}/healthz", 5) == (503, b"the event loop is stuck")
    with pytest.raises(FetchError):
        get(f"{url}/healthz", 1)


def test_nothing_listens_where_no_address_is_given(health):
    with answering(health, None):
        pass


def test_an_address_in_use_is_an_error(health, port):
    url = f"http://127.0.0.1:{port}/healthz"
    with answering(health, url), pytest.raises(OSError, match="in use"), answering(health, url):
        pass


def test_all_interfaces_are_reached_by_ipv4_and_where_there_is_ipv6_by_it(health, port):
    with answering(health, f"http://*:{port}/healthz"):
        assert get(f"http://127.0.0.1:{port}/healthz", 5)[0] == 200
        if socket.has_dualstack_ipv6():
            assert get(f"http://[::1]:{port}/healthz", 5)[0] == 200


@pytest.mark.parametrize(("dual", "host"), [(True, "::"), (False, "0.0.0.0")])
def test_a_kernel_without_ipv6_has_ipv4_alone(monkeypatch, dual, host):
    monkeypatch.setattr(module.socket, "has_dualstack_ipv6", lambda: dual)
    assert local_host("*") == host
    assert local_host("127.0.0.1") == "127.0.0.1"
