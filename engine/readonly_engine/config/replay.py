"""The options of a replay, as values: its first and last publish time, and its speed."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from readonly_engine.config.kinds import read_text
from readonly_engine.config.option import ConfigError, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED: Final = math.inf
UNLIMITED_WORD: Final = "unlimited"

MILLENNIUM: Final = 2
"""Thousands of the years that are no mistakes."""

SPEED_RANGE: Final = (0.01, 1000.0)
"""Lowest and highest speed, besides unlimited."""

_TIME: Final = r"2\d{3}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?([Zz]|[+-]\d{2}:\d{2})"
_SPEED: Final = r"\d{1,4}(\.\d{1,6})?"


class ReplaySettings(NamedTuple):
    """A replay of past messages.

    Attributes:
        begin_ms: first publish time, ms since the epoch.
        end_ms: last publish time, ms since the epoch; None for no end.
        speed: publish time that passes in a unit of time; UNLIMITED for all messages at once.
        loop: whether it begins again after the last publish time.
    """

    begin_ms: int
    end_ms: int | None
    speed: float
    loop: bool = False


def show_time(ms: float) -> str:
    """Return a time in the form of the options, in UTC with milliseconds."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read_time(value: object) -> int | None:
    if isinstance(value, datetime):  # YAML has times
        made = value if value.tzinfo is not None else None
    else:
        text = read_text(value) or ""
        try:
            made = datetime.fromisoformat(text.upper()) if re.fullmatch(_TIME, text) else None
        except ValueError:
            return None
    if made is None or made.year // 1000 != MILLENNIUM:
        return None
    return round(made.timestamp() * 1000)


def read_speed(value: object) -> float | None:
    """Return a speed; None for another value."""
    if value == UNLIMITED_WORD:
        return UNLIMITED
    text = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
    if re.fullmatch(_SPEED, text) is None:
        return None
    return float(text) if SPEED_RANGE[0] <= float(text) <= SPEED_RANGE[1] else None


def write_speed(speed: float) -> str:
    """Return a speed in the form of the option."""
    return UNLIMITED_WORD if speed == UNLIMITED else f"{speed:g}"


TIME: Final = Kind(
    "TIME",
    "a time of this millennium with its zone, such as 2026-11-21T14:00:00Z or 2026-11-21T15:00:00+01:00",
    _read_time,
    show_time,
    schema={"type": "string", "pattern": f"^{_TIME}$".replace(r"\d", "[0-9]")},
)

SPEED: Final = Kind(
    "N|unlimited",
    f"a number from {SPEED_RANGE[0]:g} to {SPEED_RANGE[1]:g}, or {UNLIMITED_WORD}",
    read_speed,
    write_speed,
    schema={
        "anyOf": [
            {"type": "number", "minimum": SPEED_RANGE[0], "maximum": SPEED_RANGE[1]},
            {"type": "string", "pattern": f"^({_SPEED}|{UNLIMITED_WORD})$".replace(r"\d", "[0-9]")},
        ]
    },
)


def check_replay(replay: ReplaySettings | None, given: Mapping[str, Any]) -> None:
    """Check the options of a replay against each other and against those that a replay decides itself.

    Args:
        replay: the replay; None without `replay-from`.
        given: the values that the file and the command line have, by key.

    Raises:
        ConfigError: one needs another, or would have no effect.
    """
    if replay is None:
        for key in ("replay-to", "replay-speed", "replay-loop"):
            if key in given:
                raise ConfigError(f"replay-from is missing: {key} needs it")
        return
    if replay.end_ms is not None and replay.end_ms <= replay.begin_ms:
        raise ConfigError(
            f"replay-to: must be later than replay-from, {show_time(replay.begin_ms)}, not {show_time(replay.end_ms)}"
        )
    if replay.loop and replay.end_ms is None:
        raise ConfigError("replay-to is missing: replay-loop needs it")
    if replay.loop and replay.speed == UNLIMITED:
        raise ConfigError(f"replay-speed: must be a number with replay-loop, not {UNLIMITED_WORD}")
    for key, contradicting, why in (
        ("cursors", ("owner",), "a replay has cursors of its own"),
        ("tail", ("owner",), "a replay reads from storage"),
        ("lookup-unbound", ("redirect", "proxy"), "a replay refuses topics that are not bound to it"),
    ):
        if given.get(key) in contradicting:
            raise ConfigError(f"{key}: {given[key]} is not possible with replay-from: {why}; leave {key} out")
