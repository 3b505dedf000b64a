"""Message ids as texts: of one entry, and of one message in it."""

from __future__ import annotations

import re
from typing import Final

from readonly_engine.topic.position import Position

_ID: Final = re.compile(r"(-1|[0-9]{1,19}):(-1|[0-9]{1,19})(?::-?[0-9]{1,9}){0,2}")


class PositionError(ValueError):
    """A text that is no message id."""


def parse_message_id(text: object) -> Position:
    """The entry that a message id names.

    Args:
        text: `LEDGER:ENTRY`; a partition and an index in a batch may follow, as in the column `messageId`: a batch is not cut.

    Raises:
        PositionError: not a message id.
    """
    match = _ID.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise PositionError(f"{text!r} would be a message id as 12:345, or earliest or latest")
    return Position(int(match[1]), int(match[2]))
