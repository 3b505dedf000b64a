"""Publishing of a block: what the client's callbacks report, also after its flush has returned."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pytest

from longtests.frameworks import workload
from longtests.frameworks.workload import Planned, Publisher, Sent

TOPIC = "persistent://public/default/orders"
BLOCK = [Planned(f"p{number}", "", {}, batched=False) for number in range(3)]


class LateProducer:
    """Runs the callbacks only once the flush has returned, as the client may on a busy machine.

    Args:
        results: result of each message; callbacks beyond them never run.
    """

    def __init__(self, results: list[pulsar.Result]) -> None:
        self._results = results
        self._callbacks: list[Callable[..., None]] = []
        self.threads: list[threading.Thread] = []

    def send_async(self, _: bytes, callback: Callable[..., None], **__: Any) -> None:
        self._callbacks.append(callback)

    def flush(self) -> None:
        pairs = list(zip(self._callbacks, self._results, strict=False))

        def report() -> None:
            for index, (callback, result) in enumerate(pairs):
                callback(result, pulsar.MessageId(-1, 7, index, -1))

        self.threads.append(threading.Timer(0.05, report))
        self.threads[-1].start()


@pytest.fixture
def publisher_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[pulsar.Result]], Publisher]]:
    """Return a function that makes a publisher whose messages have given results."""
    producers: list[LateProducer] = []

    def make(results: list[pulsar.Result]) -> Publisher:
        producers.append(LateProducer(results))
        client = type("Client", (), {"create_producer": lambda *_, **__: producers[-1], "close": lambda _: None})
        monkeypatch.setattr(pulsar, "Client", lambda *_, **__: client())
        return Publisher("pulsar://127.0.0.1:6650", TOPIC)

    yield make
    for producer in producers:
        for thread in producer.threads:
            thread.join()


def test_messages_whose_callbacks_run_after_the_flush_are_sent(publisher_of: Callable[..., Publisher]) -> None:
    sent = publisher_of([pulsar.Result.Ok] * 3).publish(BLOCK)
    assert sent == [Sent(f"p{number}", "", -1, (7, number), -1) for number in range(3)]


def test_a_failed_message_fails_the_block(publisher_of: Callable[..., Publisher]) -> None:
    results = [pulsar.Result.Ok, pulsar.Result.TopicTerminated, pulsar.Result.Ok]
    with pytest.raises(pulsar.PulsarException, match="TopicTerminated"):
        publisher_of(results).publish(BLOCK)


def test_a_callback_that_does_not_run_fails_the_block(
    publisher_of: Callable[..., Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "_CALLBACKS_S", 0.2)
    with pytest.raises(pulsar.PulsarException, match="Timeout"):
        publisher_of([pulsar.Result.Ok] * 2).publish(BLOCK)


@pytest.mark.parametrize(("batches", "kinds"), [(True, {True, False}), (False, {False})])
def test_a_program_may_get_single_messages_only(batches: bool, kinds: set[bool]) -> None:
    blocks = workload.plan_blocks("t", 40, keyed=False, batches=batches)
    assert {planned.batched for block in blocks for planned in block} == kinds
