"""Distinction between liveness checks and keep-alive PINGs."""

from readonly_engine.owner.probe_detector import ProbeDetector


def test_keep_alive_pings_are_not_probes():
    pings = ProbeDetector(100.0)
    assert not any(pings.is_probe(100.0 + 30 * number) for number in range(1, 10))


def test_a_ping_between_two_keep_alive_pings_is_a_probe():
    pings = ProbeDetector(0.0)
    assert pings.is_probe(12.0)
    assert not pings.is_probe(30.0)
    assert pings.is_probe(31.0)
    assert not pings.is_probe(60.0)


def test_probes_have_a_shortest_interval():
    pings = ProbeDetector(0.0)
    asked = [now / 10 for now in range(1, 280) if pings.is_probe(now / 10)]
    assert asked == [0.1, 5.1, 10.1, 15.1, 20.1, 25.1]
