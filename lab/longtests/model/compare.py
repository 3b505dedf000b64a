"""Comparison of a cursor's copy with the owner's cursor: the engine's CursorSync, with immediate answers to its queries.

Its coroutines run from one query to the next. Here none has to wait, so each runs to its end in one step of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.broker.subscription.cursor_queries import OwnerCursorRanges
from readonly_engine.broker.subscription.cursor_sync import CursorSync
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.wire.pulsar_pb2 import CommandAck

from longtests.model.serving import NOW, bits, load, mark_delete_of, position, ranges_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.position import Position

    from longtests.model.serving import Serving

SENT_AWAY: Final = 1
"""The owner has closed a consumer."""

LOST: Final = 2
"""The connection to the owner broke."""


@dataclass
class _Owner:
    """The owner's answers (CursorQueries)."""

    told: OwnerCursorState
    at_owner: OwnerCursorRanges

    async def state(self, _consumer: object) -> OwnerCursorState:
        return self.told

    async def acked(self) -> list[tuple[Position, Position]]:
        return self.at_owner.acked

    async def cursor(self) -> OwnerCursorRanges:
        return self.at_owner

    async def batches(self, *_: object) -> list[tuple[Position, int]]:
        return []

    def pending_ack_source(self) -> Any:
        raise NotImplementedError


@dataclass
class _View:
    """The subscription's view of the topic (TopicView)."""

    chain: LedgerChain
    entries: int
    loaded: int

    async def reload(self) -> None:
        load(self.chain, self.entries, self.loaded)


@dataclass
class _OwnerConsumer:
    """A consumer at the owner (OwnerConsumer)."""

    unanswered: list[CommandAck]
    closed_by_owner: bool
    lost_at: float | None
    subscribed: bool = True
    confirmed_up_to: None = None
    resumed_at: Position | None = None
    possibly_lost: tuple[()] = ()
    acked: int = 0

    def forget_answers(self) -> None:
        self.confirmed_up_to = None

    def ack(self, ack: CommandAck) -> None:
        self.acked |= bits(message_id.entry_id for message_id in ack.message_id)


@dataclass
class _GroupedAcks:
    """The acks that consumers send in groups (GroupedAckSender)."""

    serving: Serving
    unanswered: CommandAck = field(init=False)

    def __post_init__(self) -> None:
        self.unanswered = _ack(self.serving.acks.unanswered)

    def possibly_lost(self, lost_at: float) -> Iterator[CommandAck]:
        return (_ack(answered.ack) for answered in self.serving.recent.before(lost_at))


def ledgers(serving: Serving) -> int:
    """Return the newest known ledger."""
    return serving.chain.newest_ledger


def compare(
    serving: Serving,
    client: int,
    told: int,
    acked: int,
    written: int,
    newest_ledger: int,
    loaded: int,
    away: tuple[tuple[int, int], ...],
) -> tuple[bool, int]:
    """Compare the cursors after the owner is back.

    Args:
        serving: the subscription.
        client: the client of the consumer that is back.
        told: entries that were acked when the owner gave its mark-delete position.
        acked: entries that are acked there now, with holes.
        written: whether the owner has stored the cursor since it loaded the topic.
        newest_ledger: the newest ledger known before the topic moved.
        loaded: number of times the topic was loaded.
        away: each consumer served here: its client, and how it lost its owner.

    Returns:
        Whether the copy can stay in use, and the entries that were acked again.
    """
    owner, cursor = _ask(serving, told, acked, written, loaded)
    owner_consumers = {
        one: _OwnerConsumer(
            [_ack([entry]) for by, entry in serving.alone if by == one],
            bool(how & SENT_AWAY),
            NOW if how & LOST else None,
        )
        for one, how in away
    }
    consumers: Any = list(owner_consumers.values())
    grouped: Any = _GroupedAcks(serving)
    back: Any = owner_consumers[client]
    goes_on = _run(cursor.can_resume(back, 1.0, owner.told, newest_ledger, consumers, grouped))
    again = bits(entry for one in consumers for entry in range(serving.entries) if one.acked >> entry & 1)
    serving.alone += [(client, entry) for entry in range(serving.entries) if again >> entry & 1]
    if not goes_on:
        serving.acks.forget()
        serving.recent.forget()
    return bool(goes_on), again


def compare_non_durable(serving: Serving, told: int, newest_ledger: int, loaded: int, resumed_at: int) -> bool:
    """Compare the cursors after a reader has subscribed at an owner without its cursor.

    Args:
        serving: the subscription.
        told: number of entries before the owner's new cursor.
        newest_ledger: the newest ledger known before the topic moved.
        loaded: number of times the topic was loaded.
        resumed_at: number of entries before the position of the requested resume; NONE for the reader's first start.

    Returns:
        Whether the copy can stay in use.
    """
    owner, cursor = _ask(serving, (1 << told) - 1, 0, 0, loaded)
    at = None if resumed_at < 0 else position(resumed_at - 1)
    consumer: Any = _OwnerConsumer([], closed_by_owner=False, lost_at=None, resumed_at=at)
    grouped: Any = _GroupedAcks(serving)
    return bool(_run(cursor.can_resume(consumer, 1.0, owner.told, newest_ledger, [consumer], grouped)))


def refresh(serving: Serving, acked: int, loaded: int) -> None:
    """Read the owner's cursor again: another broker may have moved it (Subscription.refresh)."""
    _, cursor = _ask(serving, acked, acked, 0, loaded)
    consumer: Any = _OwnerConsumer([], closed_by_owner=False, lost_at=None)
    _run(cursor.refresh(lambda: [consumer]))
    serving.dispatcher.cursor_moved()


def _ask(serving: Serving, told: int, acked: int, written: int, loaded: int) -> tuple[_Owner, CursorSync]:
    state = OwnerCursorState(mark_delete_of(told), position(serving.entries - 1))
    owner = _Owner(state, OwnerCursorRanges(list(ranges_of(acked)), not written))
    view: Any = _View(serving.chain, serving.entries, loaded)
    return owner, CursorSync(
        "s", view, serving.cursor, owner, lambda _: None, lambda _: serving.dispatcher.cursor_moved()
    )


def _ack(entries: Iterable[int]) -> CommandAck:
    ack = CommandAck(ack_type=CommandAck.Individual)
    for entry in entries:
        ack.message_id.add(ledger_id=position(entry).ledger_id, entry_id=entry)
    return ack


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the coroutine waits")
