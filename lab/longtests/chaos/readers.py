"""A stock Reader that continues after its last message when its process was killed and restarted."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import pulsar

from longtests.churn.history import Kind
from longtests.churn.stock import place_of

if TYPE_CHECKING:
    from pathlib import Path

    from longtests.chaos.workload import Subscription
    from longtests.churn.history import History

_RECEIVE_MS: Final = 200
_RETRY_S: Final = 0.5
_PAUSE_S: Final = 8.0
_BURST: Final = 60
_SMALL_QUEUE: Final = 10


class ReaderLoop:
    """One Reader in a thread.

    Args:
        history: receives its events.
        plan: its subscription; with `latest` it starts at the end, has a small queue, and pauses between bursts.
        session: its name in the history.
        topic: the topic's name.
        client: the stock client.
        place: the file with its position.
    """

    def __init__(
        self, history: History, plan: Subscription, session: str, topic: str, client: pulsar.Client, place: Path
    ) -> None:
        self._history = history
        self._plan = plan
        self._session = session
        self._topic = topic
        self._client = client
        self._begin = read_place(place)
        self._place = os.open(place, os.O_WRONLY | os.O_CREAT)
        self._stop = threading.Event()
        self._steady = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Read without pauses from now on."""
        self._steady.set()

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        reader = self._open()
        if reader is None:
            return
        self._history.add(Kind.OPENED, self._plan.name, self._session, text="stock Reader")
        seen = 0
        while not self._stop.is_set():
            try:
                message = reader.read_next(_RECEIVE_MS)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException as error:
                self._history.add(Kind.NOTE, self._plan.name, self._session, text=f"read: {error}")
                self._stop.wait(_RETRY_S)
                continue
            self._history.add(Kind.DELIVERED, self._plan.name, self._session, [place_of(message.message_id())])
            os.pwrite(self._place, message.message_id().serialize().hex().encode() + b"\n", 0)
            seen += 1
            if self._plan.latest and not self._steady.is_set() and seen % _BURST == 0:
                self._steady.wait(_PAUSE_S)
        self._history.add(Kind.ENDED, self._plan.name, self._session)
        try:
            reader.close()
        except pulsar.PulsarException as error:
            self._history.add(Kind.NOTE, self._plan.name, self._session, text=f"close: {error}")

    def _open(self) -> pulsar.Reader | None:
        first = pulsar.MessageId.latest if self._plan.latest else pulsar.MessageId.earliest
        while not self._stop.is_set():
            try:
                return self._client.create_reader(
                    self._topic,
                    first if self._begin is None else self._begin,
                    receiver_queue_size=_SMALL_QUEUE if self._plan.latest else 100,
                )
            except pulsar.PulsarException as error:
                self._history.add(Kind.NOTE, self._plan.name, self._session, text=f"create: {error}")
                self._stop.wait(_RETRY_S)
        return None


def read_place(place: Path) -> pulsar.MessageId | None:
    """Return the position of a Reader's last message; None before the first."""
    try:
        return pulsar.MessageId.deserialize(bytes.fromhex(place.read_text().splitlines()[0]))
    except (OSError, IndexError, ValueError):
        return None
