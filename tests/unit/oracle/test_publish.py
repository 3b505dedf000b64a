from __future__ import annotations

from threading import Event

import pytest

from tests.oracle.publish import within


def test_a_call_returns_its_result_and_raises_its_error():
    assert within(5, lambda: "producer") == "producer"
    with pytest.raises(ValueError, match="no such topic"):
        within(5, lambda: (_ for _ in ()).throw(ValueError("no such topic")))


def test_a_call_that_never_returns_ends_with_a_timeout():
    never = Event()
    with pytest.raises(TimeoutError):
        within(0.05, never.wait)
    never.set()
