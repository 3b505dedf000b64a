"""Guard as a machine of the model: its calls, and one look at the owner as GuardKeeper._compare does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.cursors.guard import Guard

if TYPE_CHECKING:
    from readonly_engine.topic.position import Position


def make(former: Position) -> Guard:
    """Return the guard of a broker that takes over, with the stored cursor."""
    return Guard(former)


def made(start: Position) -> Guard:
    """Return the guard of the broker that has created the cursor."""
    guard = Guard()
    guard.mark_delete = start
    return guard


def look(guard: Guard, at_owner: Position, cursor: Position) -> bool:
    """Compare a guard with the owner's subscription; return whether its position is taken for an expiry."""
    expires = guard.expired(at_owner, cursor) and not guard.take_late(at_owner)
    guard.mark_delete = at_owner
    return expires


def look_as_before(guard: Guard, at_owner: Position, cursor: Position) -> bool:
    """Do the same as `look`, but take each position past the cursor for an expiry."""
    expires = guard.expired(at_owner, cursor)
    look(guard, at_owner, cursor)
    return expires


def look_at_new_one_as_before(guard: Guard, at_owner: Position, cursor: Position) -> bool:
    """Do the same as `look`, but take each position past the cursor for an expiry where no place was known before."""
    unknown = guard.mark_delete is None
    return look(guard, at_owner, cursor) or (unknown and at_owner > cursor and not guard.take_late(at_owner))


def lose(guard: Guard) -> None:
    """Record that the owner has lost the guard, and has not answered that it made it again."""
    guard.mark_delete = None


def known(guard: Guard) -> bool:
    """Return whether the broker knows where the guard is."""
    return guard.mark_delete is not None


def begin(guard: Guard, cursor: Position) -> Position | None:
    """Return where the guard has to be; None if it is there."""
    found = guard.target(cursor)
    return None if found == guard.mark_delete else found


def follow(guard: Guard, cursor: Position) -> Position | None:
    """Return where the guard has to be, if it follows inside of a ledger; None if it is there."""
    found = guard.target(cursor, follow=True)
    return None if found == guard.mark_delete else found


def answered(guard: Guard, at: Position) -> None:
    """Record the owner's answer to a move."""
    guard.mark_delete = at


unanswered, expect, arrived, retains = Guard.unanswered, Guard.expect, Guard.arrived, Guard.retains
