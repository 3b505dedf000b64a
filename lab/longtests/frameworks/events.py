"""The lines that a program writes to its standard output, one JSON object each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

_MAX_ERRORS: Final = 1000
_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class Received:
    """One message that a program received.

    Attributes:
        payload: its payload.
        entry: ledger and entry of its id; None if the program did not write the id.
        batch_index: its index in a batch; -1 for none, or not written.
        redeliveries: its redelivery count; None if the program did not write it.
    """

    payload: str
    entry: tuple[int, int] | None
    batch_index: int
    redeliveries: int | None


@dataclass(slots=True)
class Events:
    """All events of one run so far.

    Attributes:
        ready: whether the program has subscribed.
        done: whether it wrote its last line.
        messages: messages in the order of their lines.
        payloads: their payloads, each once.
        errors: first texts of errors.
        error_count: number of errors.
        reconnects: number of reconnects, if the program writes them.
        broken: lines of another form.
    """

    ready: bool = False
    done: bool = False
    messages: list[Received] = field(default_factory=list)
    payloads: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    error_count: int = 0
    reconnects: int = 0
    broken: list[str] = field(default_factory=list)

    def add_line(self, line: str) -> None:
        """Add a line of standard output; an empty one is ignored."""
        if not line.strip():
            return
        try:
            self._add(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            if len(self.broken) < _MAX_ERRORS:
                self.broken.append(line.strip()[:_TEXT])

    def _add(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "ready":
                self.ready = True
            case "message":
                received = _received(event)
                self.messages.append(received)
                self.payloads.add(received.payload)
            case "error":
                self.error_count += 1
                if len(self.errors) < _MAX_ERRORS:
                    self.errors.append(str(event["text"])[:_TEXT])
            case "reconnect":
                self.reconnects += 1
            case "done":
                self.done = True
            case other:
                raise ValueError(other)


def _received(event: dict[str, Any]) -> Received:
    payload, redeliveries = event["payload"], event.get("redeliveries")
    if not isinstance(payload, str):
        raise TypeError(payload)
    entry, batch_index = None, -1
    if event.get("id") is not None:
        ledger, entry_id, _partition, batch_index = map(int, event["id"].split(":"))
        entry = (ledger, entry_id)
    return Received(payload, entry, batch_index, None if redeliveries is None else int(redeliveries))
