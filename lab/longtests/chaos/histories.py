"""Histories of client processes, as input of the check of `make -C lab chaos`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtests.churn.history import Event, Kind, decode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of one process.

    A last line that a kill cut short is dropped. The open sessions of a killed process end with its last event: it cannot record
    their end, and a dead client holds no subscription.
    """
    sessions: dict[str, Event] = {}
    at = 0.0
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):
                continue
            event = decode(line)
            at = event.at
            if event.kind is Kind.OPENED:
                sessions[event.session] = event
            elif event.kind is Kind.ENDED:
                sessions.pop(event.session, None)
            yield event
    for opened in sessions.values():
        yield Event(at, Kind.ENDED, opened.subscription, opened.session, text="its process ended")
