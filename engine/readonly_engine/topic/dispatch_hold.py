"""Decides how far a dispatch at a topic's tail may go while the owner broker is asked how far consumers may read. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.topic.position import EARLIEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.position import Position

MAX_HOLD_S: Final = 0.5
"""Longest hold of a dispatch. Afterwards each listener waits for the owner by itself, and the next dispatches are not held."""


class DispatchLimit(Protocol):
    """The owner's limit on a topic's dispatches (see MaxReadPosition).

    Attributes:
        active: whether there is a limit.
        on_answer: called after each answer of the owner, with the last entry that was awaited at the time of the request.
    """

    active: bool
    on_answer: Callable[[Position], None]

    @property
    def limit(self) -> Position:
        """The last entry that the owner is known to deliver."""

    def request(self, position: Position, tail: Position) -> None:
        """Ask the owner until it allows an entry; the topic ends at `tail` now."""


class DispatchHold:
    """Holds a dispatch for one answer of the owner, which then covers the dispatch for all listeners. Time is an argument.

    A dispatch is held while the owner has not allowed its last entry, until the first of:

    - the owner allows it;
    - the owner has answered a request that followed the entry. Then the dispatch ends at the owner's limit;
    - MAX_HOLD_S have passed.

    If the owner allows nothing of the dispatch after that, the dispatch is released as a whole: its entries may be markers, or
    messages of transactions, and each listener checks them entry by entry. Further dispatches are not held until the owner
    allows all entries that the listeners know. So a release never means a permission.
    """

    __slots__ = ("_answered", "_since", "_tail")

    def __init__(self) -> None:
        self._since: float | None = None
        self._tail: Position = EARLIEST
        self._answered = False

    @property
    def pending(self) -> bool:
        """Whether a dispatch is held."""
        return self._since is not None

    def next_timer(self) -> float | None:
        """Return the time of the next `decide` without an answer; None while no dispatch is held."""
        return None if self._since is None else self._since + MAX_HOLD_S

    def decide(
        self, notified: Position, first: Position, tail: Position, limit: Position, now: float
    ) -> Position | None:
        """Return the last entry of the dispatch; None to hold it.

        Args:
            notified: the last entry that the listeners know.
            first: the entry after it.
            tail: the last readable entry of the topic.
            limit: the last entry that the owner allows.
            now: the time, in seconds.
        """
        if tail <= limit or notified > limit:
            self.end()
            return tail
        if self._since is None:
            self._since, self._tail, self._answered = now, tail, False
        if not self._answered and now < self._since + MAX_HOLD_S:
            return None
        self.end()
        return limit if first <= limit else tail

    def answered(self, awaited: Position) -> None:
        """Record an answer of the owner to a request, at whose time this was the last awaited entry."""
        self._answered |= self.pending and awaited >= self._tail

    def end(self) -> None:
        """Hold nothing."""
        self._since = None
