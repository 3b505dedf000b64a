"""Which PINGs of an owner ask for the clients."""

from __future__ import annotations

from readonly_engine.owner.probe_detector import ProbeDetector


def test_regular_pings_ask_nothing():
    pings = ProbeDetector(100.0)
    assert not any(pings.is_probe(100.0 + 30 * number) for number in range(1, 10))


def test_a_ping_between_two_regular_ones_asks_and_the_next_regular_one_does_not():
    pings = ProbeDetector(0.0)
    assert pings.is_probe(12.0)
    assert not pings.is_probe(30.0)
    assert pings.is_probe(31.0)
    assert not pings.is_probe(60.0)


def test_whoever_contends_all_the_time_does_not_have_clients_asked_all_the_time():
    pings = ProbeDetector(0.0)
    asked = [now / 10 for now in range(1, 280) if pings.is_probe(now / 10)]
    assert asked == [0.1, 5.1, 10.1, 15.1, 20.1, 25.1]
