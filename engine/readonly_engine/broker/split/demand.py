"""How many entries the consumers of one broker can take, of which they have permits for messages only. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_ENTRIES: Final = 100
"""Entries to ask for while their sizes are unknown. A batch may have a thousand messages, and other brokers wait for entries."""


def entries_wanted(permits: Mapping[int, int], undelivered: int, entries: int, messages: int) -> tuple[int, int]:
    """Return a priority level, and the number of entries that its consumers can take; zeros if none can.

    Args:
        permits: messages that the consumers of each priority level can take.
        undelivered: entries that wait for them, which the consumers of the highest priority take first.
        entries: number of entries that were dispatched so far.
        messages: number of messages in them.
    """
    for priority, free in sorted(permits.items()):
        wanted = -(-free * entries // messages) if messages > entries > 0 else free
        if wanted > undelivered:
            wanted -= undelivered
            return priority, wanted if entries else min(wanted, FIRST_ENTRIES)
        undelivered -= wanted
    return 0, 0
