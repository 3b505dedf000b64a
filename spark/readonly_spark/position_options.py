"""Values of the options that name topics, and positions in them. Pure."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import re2
from readonly_engine.metadata.topic_name import parse_topic_name

from readonly_spark.message_ids import PositionError, parse_batch_index, parse_message_id

if TYPE_CHECKING:
    from readonly_engine.topic.position import Position

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_EPOCH_MS: Final = re.compile(r"[0-9]{1,15}")
_INDEX: Final = re.compile(r"[0-9]{1,18}")


def topic_names(text: str) -> tuple[str, ...]:
    """Parse names of topics, separated by commas; return their full names.

    Raises:
        ValueError: the text is malformed.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"{text!r} must be topic names separated by commas")
    topics = [parse_topic_name(name) for name in names]
    for topic in topics:
        if topic.domain != "persistent":
            raise ValueError(f"{topic} is not persistent, so it is not stored")
    full = tuple(str(topic) for topic in topics)
    for name in full:
        if full.count(name) > 1:
            raise ValueError(f"{name} is named twice")
    bases = {str(topic): str(topic.base) for topic in topics}
    for name, base in bases.items():
        if base != name and base in bases:
            raise ValueError(f"{name} is a partition of {base}, which is named too")
    return full


def topic_pattern(text: str) -> str:
    """Parse a pattern of full names.

    Raises:
        ValueError: the text is malformed.
    """
    full = text if text.startswith("persistent://") else f"persistent://{text}"
    try:
        re2.compile(full)
    except re2.error as error:
        raise ValueError(f"{text!r} is not a regular expression of RE2: {error}") from None
    return full


def offsets_by_topic(text: str) -> str | dict[str, str | int | Position]:
    """Parse `earliest`, `latest`, or JSON with one of these, a position or a publish time (ms) by topic.

    Raises:
        ValueError: the text is malformed.
    """
    if text.strip().lower() in {EARLIEST, LATEST}:
        return text.strip().lower()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found:
        raise ValueError(f'{text!r} must be earliest, latest, or JSON as {{"TOPIC": "LEDGER:ENTRY"}}')
    offsets: dict[str, str | int | Position] = {}
    for name, where in found.items():
        topic = str(parse_topic_name(name))
        if topic in offsets:
            raise ValueError(f"{topic} is named twice")
        if where in {EARLIEST, LATEST}:
            offsets[topic] = where
            continue
        try:
            offsets[topic] = time_ms(where) if _is_time(where) else parse_message_id(where)
        except PositionError as error:
            raise ValueError(f"{topic}: {error}, or a time such as 2026-11-21T12:00:00Z") from None
    return offsets


def batch_indexes_by_topic(text: str) -> dict[str, int]:
    """Return the batch indexes above 0 of the message ids in a value that `offsets_by_topic` takes."""
    if text.strip().lower() in {EARLIEST, LATEST}:
        return {}
    ids = {
        str(parse_topic_name(name)): where
        for name, where in json.loads(text).items()
        if where not in {EARLIEST, LATEST} and not _is_time(where)
    }
    return {name: index for name, where in ids.items() if (index := parse_batch_index(where))}


def _is_time(where: object) -> bool:
    return isinstance(where, str) and "T" in where.upper()


def time_ms(text: str) -> int:
    """Parse a publish time; return ms since the epoch.

    Raises:
        ValueError: the text is malformed.
    """
    text = text.strip()
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} must be ms since the epoch, or a time such as 2026-11-21T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)  # independent of the time zone of the driver
    return round(moment.timestamp() * 1000)


def indexes_by_topic(text: str) -> int | dict[str, int]:
    """Parse the number of a message, or JSON with one by topic or partition.

    Raises:
        ValueError: the text is malformed.
    """
    if _INDEX.fullmatch(text.strip()):
        return int(text)
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found:
        raise ValueError(f'{text!r} must be the number of a message, 0 or more, or JSON as {{"TOPIC": 1000}}')
    numbers: dict[str, int] = {}
    for name, number in found.items():
        topic = str(parse_topic_name(name))
        if topic in numbers:
            raise ValueError(f"{topic} is named twice")
        if type(number) is not int or not _INDEX.fullmatch(str(number)):
            raise ValueError(f"{topic}: {number!r} must be the number of a message, 0 or more")
        numbers[topic] = number
    return numbers
