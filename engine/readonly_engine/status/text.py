"""Texts for people: foreign names that can do no harm, and amounts in short forms."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

MAX_NAME: Final = 300
"""Characters of a foreign name that are shown. A client chooses the names of its consumers, and its version."""

MAX_CLIPPED: Final = 4000
"""Characters of a foreign name in a state. A client may choose names as long as a frame, some megabytes."""

UNKNOWN: Final = "-"
"""Shown for a figure that is not known."""

_UNITS: Final = ("", "k", "M", "G", "T", "P", "E")
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400


def printable(text: str, limit: int = MAX_NAME) -> str:
    """Return a foreign text of at most `limit` characters, without those that control a terminal or a line's direction."""
    if len(text) > limit:
        text = f"{text[: max(limit - 1, 0)]}…"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def clipped(text: str) -> str:
    """Return a foreign text of at most MAX_CLIPPED characters; an ellipsis shows the cut."""
    return text if len(text) <= MAX_CLIPPED else f"{text[: MAX_CLIPPED - 1]}…"


def count(number: int | None) -> str:
    """Return a number with separators of thousands; UNKNOWN for None."""
    return UNKNOWN if number is None else f"{number:,}"


def short(number: float | None) -> str:
    """Return a number with three digits and a decimal unit, as `1.23k`; UNKNOWN for None."""
    return UNKNOWN if number is None else _scaled(number, 1000, _UNITS, "")


def byte_count(number: float | None) -> str:
    """Return bytes with a binary unit, as `1.23 MiB`; UNKNOWN for None."""
    return UNKNOWN if number is None else _scaled(number, 1024, _BYTE_UNITS, " ")


def rate(number: float | None) -> str:
    """Return messages per second, as `1.23k/s`; UNKNOWN for None."""
    return UNKNOWN if number is None else f"{short(number)}/s"


def byte_rate(number: float | None) -> str:
    """Return bytes per second, as `1.23 MiB/s`; UNKNOWN for None."""
    return UNKNOWN if number is None else f"{byte_count(number)}/s"


def duration(seconds: float) -> str:
    """Return a time in its two largest units, as `2 d 3 h`."""
    whole = max(int(seconds), 0)
    if whole >= _DAY:
        return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"
    if whole >= _HOUR:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    if whole >= _MINUTE:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole} s"


def time(ms: float) -> str:
    """Return a time in UTC, of ms since the epoch; the number itself where it is out of range."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{ms:g} ms"


def _scaled(number: float, base: int, units: tuple[str, ...], space: str) -> str:
    value, index = float(number), 0
    while max(value, float(f"{value:.3g}")) >= base and index < len(units) - 1:
        value, index = value / base, index + 1
    digits = f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
    return f"{digits}{space}{units[index]}"
