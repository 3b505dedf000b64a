"""Consumers of the demo end when all has come, and nothing that a killed broker had sent can come again."""

from types import SimpleNamespace

import pytest
from readonly_engine.demo import clients
from readonly_engine.demo.clients import Consumers, number_of


class NothingYetError(Exception):
    """The client's timeout."""


class Played:
    """A consumer with one message, then a disconnection, then the same message again."""

    def __init__(self, clock: list[float], away: int) -> None:
        self._clock, self._away, self._left = clock, away, 2

    def receive(self, _: int) -> SimpleNamespace:
        self._clock[0] += 0.5
        if self._left == 1 and self._away > 0:
            self._away -= 1
            raise NothingYetError
        if not self._left:
            raise NothingYetError
        self._left -= 1
        return SimpleNamespace(data=lambda: b"7", topic_name=lambda: "t")

    def is_connected(self) -> bool:
        return self._left != 1 or self._away == 0

    def acknowledge(self, message: SimpleNamespace) -> None:
        assert message.data() == b"7"


@pytest.mark.parametrize(("away", "acked"), [(0, 2), (30, 2), (1_000, 1)])
def test_consumers_wait_while_one_has_no_connection(monkeypatch: pytest.MonkeyPatch, away: int, acked: int) -> None:
    clock = [0.0]
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    group = Consumers(1)
    group.run(Played(clock, away), [], NothingYetError)
    assert group.acked == acked
    assert clock[0] < clients.DEADLINE_S + 10


@pytest.mark.parametrize(
    ("body", "number"), [(b"0", 0), (b"9999", 9999), (b"hello", None), (b"", None), (b"\xff", None), (b"-1", None)]
)
def test_messages_of_others_have_no_number(body: bytes, number: int | None) -> None:
    assert number_of(body) == number
