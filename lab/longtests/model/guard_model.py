"""Model of a guard: one stored cursor, brokers that have it in turn, and the owner's subscription that holds the retention.

Mirrors GuardKeeper and HeldPartition.move. The owner does not fence moves: one that was sent may be carried out at any later
time, also after another broker has taken over. The cursor itself is fenced, so only the present broker moves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.topic.position import EARLIEST, Position

from longtests.model import guard_calls
from longtests.model.machines import Machines
from longtests.model.search import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.broker.cursors.guard import Guard

START: Final = Position(1, -1)
PLACES: Final = (START, Position(1, 0), Position(2, -1), Position(2, 0), Position(2, 1))
"""The positions of two ledgers with two entries each; the end of the first one is the beginning of the second."""

LAST: Final = PLACES[-1]

_FORMER_LOOKS: Final = {
    "late-move-is-expiry": guard_calls.look_as_before,
    "new-guard-is-expiry": guard_calls.look_at_new_one_as_before,
}


class GuardFaults(NamedTuple):
    """Faults that are left.

    Attributes:
        take_overs: number of brokers that are frozen, and replaced.
        silences: number of moves that the owner does not answer in time.
        seeks: number of moves of the cursor back, by a client.
        expiries: number of moves of the guard by the owner.
        losses: number of guards that the owner deletes because no consumer uses them, and makes again without moving them.
    """

    take_overs: int = 0
    silences: int = 0
    seeks: int = 0
    expiries: int = 0
    losses: int = 0


class ModelState(NamedTuple):
    """State of the guard's model.

    Attributes:
        guard: Guard of the broker that has the partition.
        cursor: stored mark-delete position.
        at_owner: position of the guard at the owner.
        sent: target of the broker's move under way; None without one.
        seek: target of a SEEK that waits for the guard; None without one.
        late: targets of moves for which nobody waits any more.
        expired: the last position to which the owner has moved the guard.
        stray: whether a late move was carried out since the last one that was answered. The broker finds it at its next look.
        left: the faults that are left.
    """

    guard: int
    cursor: Position
    at_owner: Position
    sent: Position | None
    seek: Position | None
    late: tuple[Position, ...]
    expired: Position
    stray: bool
    left: GuardFaults


Step = tuple[str, ModelState]


class GuardModel:
    """One guard.

    Args:
        name: for reports.
        faults: possible faults.
        mutants: former behaviour to restore.
    """

    def __init__(self, name: str, faults: GuardFaults, *, mutants: Iterable[str] = ()) -> None:
        self.name = name
        self._faults = faults
        self._mutants = frozenset(mutants)
        self._guards: Machines[Guard] = Machines()

    def initial(self) -> ModelState:
        """Return a cursor at the begin, with its guard."""
        guard = self._guards.begin(guard_calls.made, START)
        return ModelState(guard, START, START, None, None, (), EARLIEST, stray=False, left=self._faults)

    def steps(self, place: ModelState) -> Iterator[Step]:
        """Yield the possible next steps."""
        if place.cursor < LAST:
            yield "the client acks an entry", place._replace(cursor=PLACES[PLACES.index(place.cursor) + 1])
        if place.sent is None:
            yield from self._looks(place)
            yield from self._sends(place)
            yield from self._seeks(place)
        else:
            yield from self._ends(place)
        yield from self._late_moves(place)
        yield from self._faults_of(place)

    def canonical(self, place: ModelState) -> ModelState:
        """Return the state with its late moves in one order."""
        return place._replace(late=tuple(sorted(place.late)))

    def wrong(self, place: ModelState) -> str:
        """Return a violation if the broker itself has moved the guard past a cursor."""
        past = place.at_owner > place.cursor and place.at_owner > place.expired
        return "the owner may delete messages that a cursor needs" if past and not place.stray else ""

    def done(self, place: ModelState) -> bool:
        """Return whether everything is acked, and the guard holds nothing more."""
        at_end = place.cursor == LAST and place.at_owner.ledger_id == LAST.ledger_id
        return at_end and place.sent is None and not place.late

    # The broker

    def _looks(self, place: ModelState) -> Iterator[Step]:
        look = next((call for name, call in _FORMER_LOOKS.items() if name in self._mutants), guard_calls.look)
        guard, expires = self._guards.call(place.guard, look, place.at_owner, place.cursor)
        step, after = f"the broker looks at the guard: {place.at_owner}", place._replace(guard=guard)
        if expires:
            step += ", and expires the cursor"
            if place.at_owner > place.expired:
                raise Violation(step, "unacked messages are skipped, though the owner has not expired them")
            after = after._replace(cursor=max(place.cursor, place.at_owner))
        yield step, self._sought(after)

    def _sends(self, place: ModelState) -> Iterator[Step]:
        if not self._guards.ask(place.guard, guard_calls.known):
            return
        for where in (guard_calls.begin, guard_calls.follow):
            target = self._guards.ask(place.guard, where, place.cursor)
            if target is not None:
                yield f"the broker sends a move of the guard to {target}", place._replace(sent=target)

    def _seeks(self, place: ModelState) -> Iterator[Step]:
        if not place.left.seeks or place.seek is not None:
            return
        left = place.left._replace(seeks=place.left.seeks - 1)
        for target in PLACES:
            if place.expired <= target < place.cursor:
                guard = self._guards.call(place.guard, guard_calls.expect, target)[0]
                after = self._sought(place._replace(guard=guard, seek=target, left=left))
                yield f"the client moves the cursor back to {target}", after

    def _sought(self, place: ModelState) -> ModelState:
        """Return the state after a SEEK, if the owner holds what it needs."""
        if place.seek is None:
            return place
        if not self._guards.ask(place.guard, guard_calls.retains, place.seek):
            return place
        guard = self._guards.call(place.guard, guard_calls.arrived, place.seek)[0]
        return place._replace(guard=guard, cursor=place.seek, seek=None)

    def _ends(self, place: ModelState) -> Iterator[Step]:
        """Yield the ends of a move under way."""
        assert place.sent is not None
        guard = self._guards.call(place.guard, guard_calls.answered, place.sent)[0]
        moved = place._replace(guard=guard, at_owner=place.sent, sent=None, stray=False)
        yield f"the owner moves the guard to {place.sent}, and answers", self._sought(moved)
        if place.left.silences:
            guard = self._guards.call(place.guard, guard_calls.unanswered, place.sent)[0]
            if place.seek is not None:
                guard = self._guards.call(guard, guard_calls.arrived, place.seek)[0]
            left = place.left._replace(silences=place.left.silences - 1)
            after = place._replace(guard=guard, sent=None, seek=None, late=(*place.late, place.sent), left=left)
            yield "the owner does not answer in time", after

    # Others

    def _late_moves(self, place: ModelState) -> Iterator[Step]:
        for number, target in enumerate(place.late):
            late = place.late[:number] + place.late[number + 1 :]
            after = place._replace(at_owner=target, late=late, stray=True)
            yield f"the owner carries out a late move to {target}", after

    def _faults_of(self, place: ModelState) -> Iterator[Step]:
        if place.left.take_overs:
            guard = self._guards.begin(guard_calls.make, place.cursor)
            left = place.left._replace(take_overs=place.left.take_overs - 1)
            late = place.late if place.sent is None else (*place.late, place.sent)
            yield (
                "the broker is frozen, and another one takes over",
                place._replace(guard=guard, sent=None, seek=None, late=late, left=left),
            )
        if place.left.losses and place.sent is None:
            left = place.left._replace(losses=place.left.losses - 1)
            guard = self._guards.call(place.guard, guard_calls.lose)[0]
            after = place._replace(guard=guard, at_owner=LAST, stray=True, left=left)
            yield "the owner loses the guard, makes it again at the end, and dies before it moves it", after
        if place.left.expiries:
            left = place.left._replace(expiries=place.left.expiries - 1)
            for target in PLACES:
                if target > place.at_owner:
                    after = place._replace(at_owner=target, expired=max(place.expired, target), left=left)
                    yield f"the owner expires messages up to {target}", after
