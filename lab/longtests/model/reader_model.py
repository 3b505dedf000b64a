"""Model of a Reader that starts at the end of a topic. The topic grows, then moves; the Reader must get every later entry.

Its cursor is not durable: only the owner broker has it, in memory. Mirrors OwnerConsumer.subscribe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.owner.resume import set_resume_position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from longtests.model import compare, serving
from longtests.model.machines import NONE, Machines
from longtests.model.search import Violation
from longtests.model.state import AWAY, BACK, CLOSED, RETURNING, THERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

READER: Final = 0


class Reading(NamedTuple):
    """State of the reader model.

    Attributes:
        published: number of entries in the topic.
        began: start of the reader; NONE before it starts.
        serving: its Serving.
        owner: state of its consumer at the owner.
        cursor: number of entries before the owner's cursor; NONE if the owner has no cursor.
        resumed: number of entries before the position at which the reader asked to resume; NONE for none.
        received: number of entries that the client has received.
        acked: number of those that it has acked.
        moves: number of moves of the topic that are left.
    """

    published: int
    began: int = NONE
    serving: int = NONE
    owner: int = AWAY
    cursor: int = NONE
    resumed: int = NONE
    received: int = 0
    acked: int = 0
    moves: int = 1


Step = tuple[str, Reading]


class ReaderModel:
    """A Reader at the end of a topic.

    Args:
        name: for reports.
        entries: number of entries that the topic gets.
        mutants: former behaviour to restore.
    """

    def __init__(self, name: str, *, entries: int, mutants: Iterable[str] = ()) -> None:
        self.name = name
        self.entries = entries
        self._mutants = frozenset(mutants)
        self._servings: Machines[serving.Serving] = Machines()

    def initial(self) -> Reading:
        """Return an empty topic."""
        return Reading(0)

    def steps(self, at: Reading) -> Iterator[Step]:
        """Yield the possible next steps."""
        if at.published < self.entries and at.moves:
            grown = at._replace(published=at.published + 1)
            if at.serving != NONE:
                grown = grown._replace(serving=self._servings.call(at.serving, serving.published)[0])
            yield f"entry {at.published} is published", grown
        if at.moves and at.began != NONE:
            yield "the topic is unloaded and has a new owner", at._replace(owner=CLOSED, cursor=NONE, moves=0)
        if at.began == NONE:
            begun = self._servings.begin(serving.Serving, at.published, 1, (1 << at.published) - 1, True)
            begun = self._servings.call(begun, serving.add, READER)[0]
            here = at.published
            yield (
                f"a reader starts after {here} entries",
                at._replace(began=here, serving=begun, owner=THERE, cursor=here, received=here, acked=here),
            )
            return
        after, entry = self._servings.call(at.serving, serving.deliver, READER)
        if entry >= 0:
            step = f"entry {entry} is delivered"
            if entry != at.received:
                raise Violation(step, f"the reader gets entry {entry} instead of {at.received}")
            yield step, at._replace(serving=after, received=entry + 1)
        if at.acked < at.received:
            number = self._servings.call(at.serving, serving.read_up_to, at.received - 1)[0]
            cursor = at.received if at.owner == THERE else at.cursor
            yield "the reader acks what it has", at._replace(serving=number, acked=at.received, cursor=cursor)
        yield from self._returns(at)

    def _returns(self, at: Reading) -> Iterator[Step]:
        if at.owner == CLOSED:
            yield "the broker is notified that the owner has closed the reader", at._replace(owner=RETURNING)
        elif at.owner == RETURNING:
            resumed, cursor = NONE, at.published  # it started at the latest message
            if "reader-begins-anew" not in self._mutants:
                resumed = self._servings.ask(at.serving, serving.passed)
                cursor = resume(resumed)
            yield (
                f"the broker subscribes the reader again, after {cursor} entries",
                at._replace(owner=BACK, cursor=cursor, resumed=resumed),
            )
        elif at.owner == BACK:
            number, goes_on = self._servings.call(
                at.serving, compare.compare_non_durable, at.cursor, serving.LEDGER, 2, at.resumed
            )
            assert goes_on, "the cursor has not been reset"
            back = at._replace(serving=number, owner=THERE, resumed=NONE, cursor=max(at.cursor, at.acked))
            yield "the broker continues with its copy of the cursor", back

    def canonical(self, at: Reading) -> Reading:
        """Return the state: there is one of each part."""
        return at

    def wrong(self, at: Reading) -> str:
        """Return nothing: only a step can be a violation."""
        del at
        return ""

    def done(self, at: Reading) -> bool:
        """Return whether the reader has every entry and the topic can no longer move."""
        return at.began != NONE and at.acked == at.published and not at.moves and at.owner == THERE


def resume(passed: int) -> int:
    """Return the number of entries before an owner's new cursor, for a resume after `passed` entries: one entry back."""
    subscribe = CommandSubscribe(
        topic="t", subscription="r", sub_type=CommandSubscribe.Exclusive, consumer_id=1, request_id=1
    )
    set_resume_position(subscribe, serving.position(passed - 1))
    return int(subscribe.start_message_id.entry_id)
