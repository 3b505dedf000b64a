"""Places in a topic: the values of `--from` and `--to`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from readonly_engine.tool.errors import ToolError
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.reading import position_at

if TYPE_CHECKING:
    from readonly_engine.topic.log import TopicLog

_POSITION = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")
_AGO = re.compile(r"([0-9]{1,12})(s|m|h|d)")
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH_MS = re.compile(r"[0-9]{12,14}")

Start = str | Position | int
"""`earliest`, `latest`, a position, or a time in ms since the epoch."""


def parse_start(text: str, now_ms: int, option: str = "--from") -> Start:
    """Parse a place in a topic, as of `--from`.

    Args:
        text: earliest, latest, LEDGER:ENTRY, a time (ISO 8601; local time without a zone), an age (90s, 10m, 2h, 1d), or ms since
            the epoch.
        now_ms: the time now, in ms since the epoch.
        option: the option, for errors.

    Raises:
        ToolError: the text has another form.
    """
    if text in {"earliest", "latest"}:
        return text
    if match := _POSITION.fullmatch(text):
        return Position(int(match[1]), int(match[2]))
    if match := _AGO.fullmatch(text):
        return now_ms - int(match[1]) * _UNITS_MS[match[2]]
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise ToolError(
            f"{option} {text}: must be earliest, latest, LEDGER:ENTRY, a time such as 2026-11-21T12:00:00 or "
            "2026-11-21T12:00:00Z, or an age such as 90s, 10m, 2h, 1d"
        ) from error


async def find_start(log: TopicLog, start: Start) -> Position:
    """Return the first position to read.

    Raises:
        BookKeeperError: an entry on the way of the search for a time cannot be read.
    """
    if isinstance(start, Position):
        return start
    if isinstance(start, int):
        return await position_at(log, start)
    if start == "earliest":
        return EARLIEST
    return log.chain.after(log.limit or EARLIEST)


def show_time(ms: int) -> str:
    """Format a time in UTC, with milliseconds, in a form that `parse_start` accepts."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{ms}ms"
