"""The record of a replay in the metadata store, which all brokers of its pool share. Pure."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from readonly_engine.topic.replay.clock import UNLIMITED, ReplayClock

UNLIMITED_WORD: Final = "unlimited"


class ReplayRecordError(Exception):
    """A record is damaged, or of another version."""


class ReplayRecord(NamedTuple):
    """What the brokers of a replay share.

    Attributes:
        clock: the clock.
        partitions: number of partitions of the cursors of each namespace.
    """

    clock: ReplayClock
    partitions: int


def window_name(begin_ms: int, end_ms: int | None, uid: str = "") -> str:
    """Return the name of a replay: its first and last publish time, in UTC, and the uid of its pool, if it has one.

    Another window is another replay, and so is that of another pool of the same name.
    """
    last = "" if end_ms is None else f"_{_time(end_ms)}"
    return f"{_time(begin_ms)}{last}" + (f"@{uid}" if uid else "")


def replays_folder(pool_folder: str) -> str:
    """Return the path of the replays of a pool in the metadata store."""
    return f"{pool_folder}/replays"


def replay_folder(pool_folder: str, begin_ms: int, end_ms: int | None, uid: str = "") -> str:
    """Return the path of a replay in the metadata store."""
    return f"{replays_folder(pool_folder)}/{quote(window_name(begin_ms, end_ms, uid), safe='')}"


def record_path(folder: str) -> str:
    """Return the path of the record in the folder of its replay."""
    return f"{folder}/clock"


def encode_record(record: ReplayRecord) -> bytes:
    """Encode a record."""
    clock = record.clock
    fields = {
        "beginMs": clock.begin_ms,
        "endMs": clock.end_ms,
        "speed": UNLIMITED_WORD if clock.speed == UNLIMITED else clock.speed,
        "sinceMs": clock.since_ms,
        "atMs": clock.at_ms,
        "paused": clock.paused,
        "loop": clock.loop,
        "round": clock.round,
        "roundMs": clock.round_ms,
        "partitions": record.partitions,
    }
    return json.dumps(fields).encode()


def decode_record(value: bytes) -> ReplayRecord:
    """Decode a record. Unknown fields are ignored.

    Raises:
        ReplayRecordError: the record is damaged.
    """
    try:
        fields = json.loads(value)
        speed = UNLIMITED if fields["speed"] == UNLIMITED_WORD else float(fields["speed"])
        end = fields["endMs"]
        clock = ReplayClock(
            int(fields["beginMs"]),
            None if end is None else int(end),
            speed,
            float(fields["sinceMs"]),
            float(fields["atMs"]),
            bool(fields["paused"]),
            bool(fields.get("loop", False)),
            int(fields.get("round", 0)),
            float(fields.get("roundMs", fields["beginMs"])),
        )
        partitions = int(fields["partitions"])
    except (ValueError, TypeError, KeyError) as error:
        raise ReplayRecordError(f"the record of a replay is damaged: {value[:200]!r}") from error
    times = (clock.since_ms, clock.at_ms, clock.round_ms)
    if not (speed > 0 and partitions > 0 and all(map(math.isfinite, times))):
        raise ReplayRecordError(f"the record of a replay is damaged: {value[:200]!r}")
    return ReplayRecord(clock, partitions)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
