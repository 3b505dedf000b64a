"""A client that does no harm, beside others that do: it shows what they cost their neighbours."""

import threading
from typing import Final, Self

from tests.support.pulsar.raw_client import RawClient

PAUSE_S: Final = 0.01


class InnocentClient:
    """Sends PINGs, and requests of a subclass, until the context ends; then closes its client.

    Args:
        client: the client, which nobody else uses meanwhile.
        pause_s: seconds between two PINGs.

    Attributes:
        slowest: the longest time to a PONG, in seconds.
        failure: the error that ended it early, such as a lost connection.
    """

    def __init__(self, client: RawClient, pause_s: float = PAUSE_S) -> None:
        self.client = client
        self.slowest = 0.0
        self.failure: Exception | None = None
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.client.close()

    def after_ping(self) -> None:
        """Do something else after each PING."""

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._pause_s):
                self.slowest = max(self.slowest, self.client.ping())
                self.after_ping()
        except Exception as error:  # noqa: BLE001 - the test reports it
            self.failure = error
