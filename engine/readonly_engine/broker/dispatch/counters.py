"""What a subscription counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """What a subscription has done on this broker."""

    messages: int = 0
    bytes: int = 0
    entries: int = 0
    acks: int = 0
    read_failures: int = 0
