"""A consumer that notes when each message came."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandSubscribe

from tests.support.pulsar.raw_client import ClosedError, RawClient

PERMITS = 1_000_000


class Watcher:
    """A consumer that notes when each message came, and acks if it is told to."""

    def __init__(self, url: str, topic: str, *, acks: bool, **options: int) -> None:
        self.came: list[tuple[float, tuple[int, int]]] = []
        self.closed_at: float | None = None
        self._client = RawClient(url)
        try:
            self._client.subscribe(topic, "s", **{"initial_position": CommandSubscribe.Earliest, **options})
        except BaseException:
            self._client.close()
            raise
        self.subscribed_at = time.monotonic()
        self._client.flow(PERMITS)
        self._acks = acks
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def last(self) -> float:
        """When the last message came."""
        return self.came[-1][0] if self.came else 0.0

    @property
    def entries(self) -> list[tuple[int, int]]:
        return [entry for _, entry in self.came]

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        wanted = {BaseCommand.MESSAGE, BaseCommand.CLOSE_CONSUMER}
        while not self._stop.is_set():
            try:
                command, _ = self._client.wait(lambda command: command.type in wanted, 0.2)
            except TimeoutError:
                continue
            except ClosedError:
                return
            if command.type == BaseCommand.CLOSE_CONSUMER:
                self.closed_at = time.monotonic()
                continue
            place = command.message.message_id
            self.came.append((time.monotonic(), (place.ledger_id, place.entry_id)))
            if self._acks:
                ack = CommandAck(consumer_id=0, ack_type=CommandAck.Individual, message_id=[place])
                self._client.send(BaseCommand(type=BaseCommand.ACK, ack=ack))


class Closed(Protocol):
    """What is closed in the end."""

    def close(self) -> None:
        """End it."""


@contextmanager
def closing(*things: Closed) -> Iterator[None]:
    """Close these in the end."""
    try:
        yield
    finally:
        for thing in things:
            thing.close()
