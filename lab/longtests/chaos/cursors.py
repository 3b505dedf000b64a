"""Watches the cursors of owners, to find one that goes back by itself.

An owner may return with an old cursor. Stock 4.0.8 does so if a broker opened a topic while another one owned it. Its managed
ledger stays in memory, and serves consumers when the broker becomes the owner, until its first write is refused. In one run the
cursors were five minutes old. Messages acked since then are redelivered, to consumers at the owner too.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from devstack.pulsar.admin import AdminError
from longtests.churn.history import Id, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor

    from devstack.pulsar.admin import PulsarAdmin
    from longtests.churn.history import History

EVERY_S: Final = 0.5
"""Short enough for such an owner, which lasts a second or two."""


class WentBack(NamedTuple):
    """A cursor went back.

    Attributes:
        at: time of the observation.
        mark_delete: everything after this is redelivered.
    """

    at: float
    mark_delete: Id


class Cursors:
    """The last known mark-delete positions of durable subscriptions at their owners."""

    def __init__(self) -> None:
        self._last: dict[str, Id] = {}

    def take(self, cursors: Mapping[str, str]) -> dict[str, Id]:
        """Take the present positions, and return those that are before the last ones.

        Args:
            cursors: by `TOPIC/SUBSCRIPTION`, each as `LEDGER:ENTRY`.
        """
        back = {}
        for name, text in cursors.items():
            ledger, _, entry = text.partition(":")
            position = Id(int(ledger), int(entry))
            if position < self._last.get(name, position):
                back[name] = position
            self._last[name] = position
        return back


async def watch(topics: Mapping[str, str], admin: Callable[[], PulsarAdmin], history: History) -> None:
    """Note each cursor that goes back, until cancelled.

    Args:
        topics: full names by short ones.
        admin: the admin API of an owner that is not disturbed.
        history: receives the notes.
    """
    # Separate threads: requests to frozen owners must not delay the faults, which use the event loop's few threads.
    threads = ThreadPoolExecutor(len(topics))
    try:
        await asyncio.gather(*(_watch_topic(short, full, admin, history, threads) for short, full in topics.items()))
    finally:
        threads.shutdown(wait=False)


async def _watch_topic(
    short: str, full: str, admin: Callable[[], PulsarAdmin], history: History, threads: Executor
) -> None:
    cursors = Cursors()
    while True:
        try:
            loop = asyncio.get_running_loop()
            stats = await loop.run_in_executor(threads, lambda: admin().internal_stats(full))
        except (AdminError, OSError):
            stats = {"cursors": {}}
        found = {f"{short}/{name}": cursor["markDeletePosition"] for name, cursor in stats["cursors"].items()}
        for name, mark_delete in cursors.take(found).items():
            history.add(Kind.WENT_BACK, name, ids=[mark_delete])
        await asyncio.sleep(EVERY_S)
