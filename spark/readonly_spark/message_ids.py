"""Message ids as text."""

from __future__ import annotations

import re
from typing import Final

from readonly_engine.topic.position import Position

_ID: Final = re.compile(r"(-1|[0-9]{1,19}):(-1|[0-9]{1,19})(?::-?[0-9]{1,9}(?::(-?[0-9]{1,9}))?)?")


class PositionError(ValueError):
    """Malformed message id."""


def parse_message_id(text: object) -> Position:
    """Return the position of the entry that a message id names.

    Args:
        text: `LEDGER:ENTRY`. A partition and a batch index may follow, as in the column `messageId`; see `parse_batch_index`.

    Raises:
        PositionError: the text is malformed.
    """
    match = _match(text)
    return Position(int(match[1]), int(match[2]))


def parse_batch_index(text: object) -> int:
    """Return the batch index of a message id; 0 if it has none.

    Raises:
        PositionError: the text is malformed.
    """
    return max(int(_match(text)[3] or 0), 0)


def _match(text: object) -> re.Match[str]:
    match = _ID.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise PositionError(f"{text!r} must be a message id such as 12:345, or earliest or latest")
    return match
