"""Counters of a subscription."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Totals of a subscription on this broker.

    Attributes:
        messages: delivered messages.
        bytes: delivered bytes.
        entries: delivered entries.
        acks: acks of clients.
        read_failures: failed reads of entries.
    """

    messages: int = 0
    bytes: int = 0
    entries: int = 0
    acks: int = 0
    read_failures: int = 0

    def add(self, other: Counters) -> None:
        """Add the totals of another subscription."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.entries += other.entries
        self.acks += other.acks
        self.read_failures += other.read_failures
