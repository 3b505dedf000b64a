"""A reader in a thread, which notes when each message came."""

from __future__ import annotations

import threading
import time

import pulsar

from tests.support.waiting import wait_until


def stored_numbers(client: pulsar.Client, topic: str) -> list[int]:
    """Return the numbers that are stored. A producer that reconnects without deduplication may store one twice."""
    reader, found = client.create_reader(topic, pulsar.MessageId.earliest), []
    while reader.has_message_available():
        found.append(int(reader.read_next(20_000).data()))
    reader.close()
    return found


class NumberReader:
    """Reads numbers until it is stopped.

    Attributes:
        at: time of each number.
        order: the numbers in their order.
    """

    def __init__(self, reader: pulsar.Reader) -> None:
        self.at: dict[int, float] = {}
        self.order: list[int] = []
        self._reader = reader
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for(self, number: int, seconds: float) -> None:
        """Wait for a number."""
        wait_until(lambda: number in self.at, seconds, what=f"{number} after {self.order[-1:]}")

    def delay_behind(self, other: NumberReader) -> float:
        """The longest time by which a number came later than at another reader, in s."""
        return max(self.at[number] - other.at[number] for number in self.order if number in other.at)

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                number = int(self._reader.read_next(200).data())
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException:
                return  # after a failure elsewhere in the test
            self.at[number] = time.monotonic()
            self.order.append(number)
