"""The entry with a message of a given number in its topic, for the options `startingIndex` and `endingIndex`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.topic.reading import first_entry
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message import indexes

if TYPE_CHECKING:
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.log import TopicLog
    from readonly_engine.topic.position import Position


class IndexStart(NamedTuple):
    """Where reading starts or ends.

    Attributes:
        position: the first entry to read, or the first one that is not read.
        first: the number of its first message; None if it is still to come.
        newest: the number of the topic's last message if `first` is None; None if it is not stored, or there is no message.
        empty: whether the topic has no entry.
    """

    position: Position
    first: int | None
    newest: int | None = None
    empty: bool = False


async def position_of_index(topic: TopicLog, number: int, *, end: bool = False) -> IndexStart:
    """Find the first entry whose last message has this number or a later one; for an end that whose first message has.

    So a batch with messages before and after the number is read whole at both ends.

    Args:
        topic: the log, opened.
        number: the number that the broker gave to a message (AppendIndexMetadataInterceptor). Entries without numbers are
            earlier.
        end: whether reading ends there.

    Raises:
        BookKeeperError: an entry on the way of the search cannot be read.
    """
    position = await first_entry(topic, lambda entry: _indexes(entry)[0 if end else 1] < number)
    if topic.limit is not None and position <= topic.limit:
        for entry in await topic.read(position, 1):
            return IndexStart(position, max(_indexes(entry)[0], 0))
    last = None if topic.limit is None else topic.chain.at(topic.chain.count_up_to(topic.limit) - 1)
    for entry in [] if last is None else await topic.read(last, 1):
        newest = _indexes(entry)[1]
        return IndexStart(position, None, None if newest < 0 else newest)
    return IndexStart(position, None, empty=True)


def _indexes(entry: TopicEntry) -> tuple[int, int]:
    try:
        return indexes(entry.stored) or (-1, -1)
    except MalformedFrameError:
        return -1, -1
