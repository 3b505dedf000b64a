"""Events at the clients during a run, as a list and as a file of JSON lines."""

from __future__ import annotations

import json
import threading
import time
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType


class Id(NamedTuple):
    """Position of a message in its topic; ids compare in the topic's order.

    Attributes:
        ledger: its ledger.
        entry: its entry.
        index: its index in a batch, -1 without a batch.
    """

    ledger: int
    entry: int
    index: int = -1


class Kind(StrEnum):
    """Kind of an event."""

    PUBLISHED = "published"
    """A producer has the receipt; `text` is the message's name."""

    UNCOMMITTED = "uncommitted"
    """A transaction was aborted, or its result is unknown; `text` is the name of one of its messages."""

    OPENED = "opened"
    """A session starts: the broker accepted the SUBSCRIBE."""

    ENDED = "ended"
    """A session ends; recorded before the client closes it, or as soon as the client notices the end."""

    DELIVERED = "delivered"
    """Messages arrived; `number` is the consumer epoch."""

    ACKING = "acking"
    """An ack is sent."""

    ACKED = "acked"
    """Its receipt arrived; with `number` 1 it was cumulative: all up to the last id."""

    NACKED = "nacked"
    """The client returned messages for redelivery."""

    SEEKING = "seeking"
    """A seek starts, after the end of all sessions; it is repeated until it succeeds."""

    SOUGHT = "sought"
    """The seek succeeded: the only id is that of the next message."""

    ACTIVE = "active"
    """The broker notified a Failover consumer of its role: `number` 1 if it is the active one."""

    KILLED = "killed"
    """A read-only broker was killed; `text` is its name."""

    STARTED = "started"
    """A read-only broker is back."""

    UNLOADED = "unloaded"
    """A topic was unloaded."""

    WENT_BACK = "went back"
    """The owner's cursor went back: the only id is its mark-delete position."""

    NOTE = "note"
    """A note for people who read the history."""


class Event(NamedTuple):
    """One event.

    Attributes:
        at: seconds of the monotonic clock, which all processes of the machine share.
        kind: its kind.
        subscription: `TOPIC/SUBSCRIPTION`, empty for none.
        session: one consumer on one connection, empty for none.
        ids: the messages.
        number: see the kinds.
        text: see the kinds.
    """

    at: float
    kind: Kind
    subscription: str = ""
    session: str = ""
    ids: tuple[Id, ...] = ()
    number: int = 0
    text: str = ""


def encode(event: Event) -> str:
    """Return an event as a line."""
    document = {"at": round(event.at, 6), "kind": event.kind, "ids": event.ids}
    document |= {
        name: value for name in ("subscription", "session", "number", "text") if (value := getattr(event, name))
    }
    return json.dumps(document, separators=(",", ":"))


def decode(line: str) -> Event:
    """Return the event in a line."""
    document = json.loads(line)
    document["kind"] = Kind(document["kind"])
    document["ids"] = tuple(Id(*id_) for id_ in document["ids"])
    return Event(**document)


def load(path: Path) -> list[Event]:
    """Return the events in a file."""
    with path.open(encoding="utf-8") as lines:
        return [decode(line) for line in lines]


class History:
    """Writes events of all threads to a file, in the order of arrival.

    Args:
        path: the new file.
        keep: whether to keep the events in memory too.
    """

    def __init__(self, path: Path, *, keep: bool = True) -> None:
        self.path = path
        self.events: list[Event] = []
        self._keep = keep
        # Line-buffered: a process's lines survive its kill -9.
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()

    def add(
        self,
        kind: Kind,
        subscription: str = "",
        session: str = "",
        ids: Iterable[Id] = (),
        *,
        number: int = 0,
        text: str = "",
    ) -> None:
        """Record an event with the present time."""
        with self._lock:
            event = Event(time.monotonic(), kind, subscription, session, tuple(ids), number, text)
            if self._keep:
                self.events.append(event)
            self._file.write(encode(event) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._file.close()
