"""Reading for a subscription what storage does not give at once: again and again, but not for ever."""

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
"""An entry that cannot be read for so long is left to the owner."""


async def read_with_retry(
    topic: TopicView, position: Position, count: int, subject: str, on_failure: Callable[[], None]
) -> str:
    """Read entries, so that they are in the cache.

    Args:
        topic: the topic.
        position: the first of them.
        count: how many, at most.
        subject: for the log.
        on_failure: called for each read that fails, except where the ledger has been trimmed.

    Returns:
        Why the first cannot be read; empty where it was read, or is there no more.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + GIVE_UP_S
    pause = BACKOFF_S[0]
    while True:
        try:
            await topic.read(position, count)
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
        log.warning("%s: %s; trying again in %.1f s", subject, reason, pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, BACKOFF_S[1])
