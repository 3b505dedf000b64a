"""Bounds the log lines that clients cause: they repeat what is refused, and there may be very many of them."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_S: Final = 1.0
"""Least time between two lines with the same text."""


class BoundedLines(logging.Filter):
    """Lets one line of each text pass in LINE_S, with the number of those before it as `unlogged`, if there were any.

    A text is the constant one of a call, so their number is that of the calls in a module. Debug lines and tracebacks all pass.

    Args:
        clock: returns seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._texts: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a line (logging.Filter)."""
        if record.levelno < logging.INFO or record.exc_info or not isinstance(record.args, tuple):
            return True
        now = self._clock()
        text = str(record.msg)
        due, unlogged = self._texts.get(text, (now, 0))
        if now < due:
            self._texts[text] = (due, unlogged + 1)
            return False
        self._texts[text] = (now + LINE_S, 0)
        if unlogged:
            record.msg = f"{text} unlogged=%d"
            record.args = (*record.args, unlogged)
        return True


def bounded_logger(name: str) -> logging.Logger:
    """Return the logger of a module whose lines clients cause."""
    logger = logging.getLogger(name)
    logger.addFilter(BoundedLines())
    return logger
