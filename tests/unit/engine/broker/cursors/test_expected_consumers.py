"""Consumers on the way from one broker to another."""

import pytest
from readonly_engine.broker.cursors import expected_consumers as module
from readonly_engine.broker.cursors.consumers import LocalConsumer
from readonly_engine.broker.cursors.expected_consumers import ARRIVAL_S, ExpectedConsumers
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMode

TYPES = (
    CommandSubscribe.Exclusive,
    CommandSubscribe.Shared,
    CommandSubscribe.Failover,
    CommandSubscribe.Key_Shared,
)


def consumer(name, kind=CommandSubscribe.Exclusive):
    return LocalConsumer(1, name, 0, kind)


MINE, OTHER = consumer("mine"), consumer("other")


def test_they_do_not_pile_up() -> None:
    expected = ExpectedConsumers()
    for number in range(1_000):
        expected.expect(f"s{number}", MINE, 1.0)
    expected.expect("s0", MINE, 2.0)
    assert len(expected) == 1_000
    expected.expect("t", MINE, 1.0 + ARRIVAL_S)
    assert len(expected) == 2
    assert not expected.admits("s0", OTHER, 1.0 + ARRIVAL_S)


def test_the_first_goes_at_the_bound(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_EXPECTED", 3)
    expected = ExpectedConsumers()
    for number in range(4):
        expected.expect(f"s{number}", MINE, 1.0)
    assert len(expected) == 3
    assert [expected.admits(f"s{number}", OTHER, 1.0) for number in range(4)] == [True, False, False, False]


def test_ranges_of_hashes_are_kept_for_all_that_are_expected() -> None:
    def sticky(name, *ranges):
        return LocalConsumer(1, name, 0, CommandSubscribe.Key_Shared, (KeySharedMode.STICKY, False), ranges)

    expected = ExpectedConsumers()
    expected.expect("s", sticky("low", (0, 100)), 1.0)
    expected.expect("s", sticky("high", (201, 300)), 1.0)
    assert expected.admits("s", sticky("between", (101, 200)), 1.1)
    assert not expected.admits("s", sticky("other", (50, 150)), 1.1)
    assert not expected.admits("s", sticky("other", (150, 201)), 1.1)
    assert expected.admits("s", sticky("low", (0, 100)), 1.1)
    expected.arrived("s", "low")
    assert expected.admits("s", sticky("other", (50, 150)), 1.1)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("expected_kind", TYPES)
def test_one_that_the_expected_one_excludes_may_not_come(kind, expected_kind):
    expected = ExpectedConsumers()
    expected.expect("s", consumer("mine", expected_kind), 1.0)
    may_come = kind == expected_kind != CommandSubscribe.Exclusive
    assert expected.admits("s", consumer("other", kind), 1.1) == may_come
