"""What the consumers of a placement run saw, and its verdict. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class History:
    """The messages of one consumer.

    Attributes:
        times: when each came, in seconds of a monotonic clock.
        numbers: their numbers; the publisher counts each topic from 0.
        moves: when the consumer was seen at another server than before.
        begins: how many messages had come when the program made the consumer, each time: it acks some of them in vain.
    """

    times: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)

    def pauses(self, around_s: float) -> list[float]:
        """Return the longest time without a message around each move, in seconds.

        Args:
            around_s: how long before and after a move counts, since it is seen by polls.
        """
        found = []
        for move in self.moves:
            near = [one for one in self.times if move - around_s <= one <= move + around_s]
            found.append(max((after - before for before, after in pairwise(near)), default=2 * around_s))
        return found

    def repeated(self) -> int:
        """Return the messages that came more than once to the consumer between two times that the program made it."""
        sessions = [self.numbers[first:after] for first, after in pairwise([0, *self.begins, len(self.numbers)])]
        return sum(len(numbers) - len(set(numbers)) for numbers in sessions)

    def disordered(self) -> int:
        """Return the messages that came for the first time behind a later one."""
        highest, late, seen = -1, 0, set()
        for number in self.numbers:
            late += number < highest and number not in seen
            seen.add(number)
            highest = max(highest, number)
        return late

    def lost(self, last: int) -> int:
        """Return the messages from the first one that came to `last` that never came."""
        return last + 1 - min(self.numbers) - len(set(self.numbers)) if self.numbers else last + 1
