"""The lag of a query in one topic. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicLag:
    """The part of a topic that a query has not read yet.

    Attributes:
        topic: the full name.
        entries: number of entries; each is a message or a batch.
        stored_bytes: their estimated size.
        messages: the estimated number of messages.
        seconds: age of the first one, by the clocks of its producer and of this machine; 0 without entries.
    """

    topic: str
    entries: int
    stored_bytes: float
    messages: float = 0.0
    seconds: float = 0.0
