"""What clients saw and did while a run lasted, as a list of events and as a file of JSON lines."""

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
    """A message's place in its topic; they compare in the topic's order.

    Attributes:
        ledger: its ledger.
        entry: its entry.
        index: its place in a batch, -1 outside of one.
    """

    ledger: int
    entry: int
    index: int = -1


class Kind(StrEnum):
    """What happened."""

    PUBLISHED = "published"
    """A producer has the receipt; `text` is the message's name."""

    UNCOMMITTED = "uncommitted"
    """A transaction was aborted, or its end is not known; `text` is the name of a message of it."""

    OPENED = "opened"
    """A session begins: the broker accepted the SUBSCRIBE."""

    ENDED = "ended"
    """A session ends; said before the client closes it, or as soon as it notices that it is closed."""

    DELIVERED = "delivered"
    """Messages came; `number` is the consumer epoch."""

    ACKING = "acking"
    """An ack is sent."""

    ACKED = "acked"
    """Its receipt came; with `number` 1 it was cumulative: all up to the last id."""

    NACKED = "nacked"
    """The client gave messages back."""

    SEEKING = "seeking"
    """The subscription is about to be moved; all its sessions have ended, and it is done until it succeeds."""

    SOUGHT = "sought"
    """It was moved: the only id is that of the next message."""

    ACTIVE = "active"
    """The broker said whether a Failover consumer is the active one: `number` 1 if it is."""

    KILLED = "killed"
    """A read-only broker was ended; `text` says which."""

    STARTED = "started"
    """A read-only broker is back."""

    UNLOADED = "unloaded"
    """A topic was unloaded."""

    WENT_BACK = "went back"
    """The owner's cursor is before where it was: the only id is its mark-delete position."""

    NOTE = "note"
    """Something for whoever reads the history."""


class Event(NamedTuple):
    """One event.

    Attributes:
        at: seconds of the monotonic clock, which all processes of the machine share.
        kind: what happened.
        subscription: `TOPIC/SUBSCRIPTION`, empty where none is concerned.
        session: one consumer on one connection, empty where none is concerned.
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
    """An event as a line."""
    document = {"at": round(event.at, 6), "kind": event.kind, "ids": event.ids}
    document |= {
        name: value for name in ("subscription", "session", "number", "text") if (value := getattr(event, name))
    }
    return json.dumps(document, separators=(",", ":"))


def decode(line: str) -> Event:
    """The event in a line."""
    document = json.loads(line)
    document["kind"] = Kind(document["kind"])
    document["ids"] = tuple(Id(*id_) for id_ in document["ids"])
    return Event(**document)


def load(path: Path) -> list[Event]:
    """The events in a file."""
    with path.open(encoding="utf-8") as lines:
        return [decode(line) for line in lines]


class History:
    """Takes events from any thread, in the order in which they come, and writes them down.

    Args:
        path: the file, made anew.
        keep: whether the events are kept in memory too.
    """

    def __init__(self, path: Path, *, keep: bool = True) -> None:
        self.path = path
        self.events: list[Event] = []
        self._keep = keep
        # Line by line: what a process has written is there after its kill -9.
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
        """Something happened just now."""
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
