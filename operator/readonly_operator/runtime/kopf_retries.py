"""Tries of kopf's lists and watches: they never end, and their log lines are few."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Delays between the tries of a request of kopf; the last one counts for all further tries."""


class Backoffs:
    """Delays between the tries of a request, without an end: `settings.networking.error_backoffs` of kopf.

    After the last of its own eight delays, 54 s in all, kopf raises the error of a refused (403) or failed (5xx) watch, and ends
    with that one watch. It takes a delay before each try, so the second one is taken after the first error.

    Args:
        failed: called after each failed try.
    """

    def __init__(self, failed: Callable[[], object]) -> None:
        self._failed = failed

    def __iter__(self) -> Iterator[float]:
        """Yield the delays of one request."""
        yield RETRY_SECONDS[0]
        for delay in RETRY_SECONDS[1:]:
            self._failed()
            yield delay
        while True:
            self._failed()
            yield RETRY_SECONDS[-1]


class RetryFilter(logging.Filter):
    """Drop kopf's log records of further failed tries: each kind and namespace has its own, and the first says all."""

    _AGAIN = re.compile(r"Request attempt #(?!1\b)\S+ failed; will retry")

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        return self._AGAIN.match(record.getMessage()) is None
