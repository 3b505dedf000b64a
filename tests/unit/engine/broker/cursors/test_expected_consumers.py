"""Exclusive consumers on the way from one broker to another."""

from __future__ import annotations

from readonly_engine.broker.cursors.expected_consumers import ARRIVAL_S, ExpectedConsumers


def test_only_the_expected_one_may_come_until_it_has_come() -> None:
    expected = ExpectedConsumers()
    assert expected.admits("s", "other", 1.0)
    expected.expect("s", "mine", 1.0)
    assert expected.admits("s", "mine", 1.1)
    assert not expected.admits("s", "other", 1.1)
    assert expected.admits("t", "other", 1.1)
    expected.arrived("s")
    assert expected.admits("s", "other", 1.1)
    expected.arrived("s")


def test_one_that_does_not_come_is_not_waited_for_any_longer() -> None:
    expected = ExpectedConsumers()
    expected.expect("s", "mine", 1.0)
    assert not expected.admits("s", "other", 0.99 + ARRIVAL_S)
    assert expected.admits("s", "other", 1.0 + ARRIVAL_S)


def test_they_do_not_pile_up() -> None:
    expected = ExpectedConsumers()
    for number in range(1_000):
        expected.expect(f"s{number}", "mine", 1.0)
    expected.expect("s0", "mine again", 2.0)
    assert len(expected) == 1_000
    expected.expect("t", "mine", 1.0 + ARRIVAL_S)
    assert len(expected) == 2
    assert not expected.admits("s0", "mine", 1.0 + ARRIVAL_S)
