"""Reads of a subscription's entries from storage, with retries for a limited time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchEntryError, NoSuchLedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.position import Position
    from readonly_engine.topic.view import TopicView

log = logging.getLogger(__name__)

BACKOFF_S: Final = (0.1, 5.0)

GIVE_UP_S: Final = 15.0
"""Time of retries after which an entry counts as unreadable, so that the owner must serve the subscription."""


async def read_with_retry(
    topic: TopicView,
    position: Position,
    count: int,
    subject: str,
    on_failure: Callable[[], None],
    *,
    exact: bool = False,
) -> str:
    """Read entries into the cache.

    Args:
        topic: the topic.
        position: position of the first entry.
        count: largest number of entries.
        subject: topic and subscription, as fields for logs.
        on_failure: called for each failed read, except for a trimmed ledger.
        exact: whether to read no entries after them.

    Returns:
        The reason why the first entry cannot be read; empty if it was read or its ledger is trimmed.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + GIVE_UP_S
    pause = BACKOFF_S[0]
    while True:
        try:
            await topic.read(position, count, exact=exact)
        except (NoSuchLedgerError, NoSuchEntryError) as error:
            if topic.chain.ledger(position.ledger_id) is None:
                return ""  # trimmed meanwhile
            reason: BookKeeperError = error
        except BookKeeperError as error:
            reason = error
        else:
            return ""
        on_failure()
        if loop.time() > give_up:
            return f"entry {position} cannot be read from storage: {reason}"
        log.warning("entry not read: %s retry_in=%.1fs error=%s", subject, pause, reason)
        await asyncio.sleep(pause)
        pause = min(2 * pause, BACKOFF_S[1])
