"""A copy of the cursor with the owner's: the engine's CursorSync, whose questions are answered at once.

Its coroutines run from one question to the next. Here none has to wait, so each runs to its end in one step of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.broker.subscription.cursor_sync import CursorSync, OwnerCursorRanges
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.wire.pulsar_pb2 import CommandAck

from tests.model.serving import NOW, bits, load, mark_delete_of, position, ranges_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.position import Position

    from tests.model.serving import Serving

SENT_AWAY: Final = 1
"""The owner has closed a consumer."""

LOST: Final = 2
"""The connection to the owner broke."""


@dataclass
class _Owner:
    """What the owner answers (CursorQueries)."""

    told: OwnerCursorState
    at_owner: OwnerCursorRanges

    async def state(self, _relayed: object) -> OwnerCursorState:
        return self.told

    async def acked(self) -> list[tuple[Position, Position]]:
        return self.at_owner.acked

    async def cursor(self) -> OwnerCursorRanges:
        return self.at_owner

    async def batches(self) -> list[tuple[Position, int]]:
        return []

    def pending_ack_source(self) -> Any:
        raise NotImplementedError


@dataclass
class _View:
    """What the subscription reads (TopicView)."""

    chain: LedgerChain
    entries: int
    loaded: int

    async def reload(self) -> None:
        load(self.chain, self.entries, self.loaded)


@dataclass
class _Relayed:
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
class _Together:
    """The acks that consumers send together (GroupedAckSender)."""

    serving: Serving
    unanswered: CommandAck = field(init=False)

    def __post_init__(self) -> None:
        self.unanswered = _ack(self.serving.acks.unanswered)

    def possibly_lost(self, lost_at: float) -> Iterator[CommandAck]:
        return (_ack(answered.ack) for answered in self.serving.recent.before(lost_at))


def ledgers(serving: Serving) -> int:
    """The newest ledger that is known."""
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
    """Compare after the owner came back.

    Args:
        serving: the subscription.
        client: whose consumer is back.
        told: what was acked when the owner was asked for its mark-delete position.
        acked: what is acked there now, holes and all.
        written: whether it has stored the cursor since it loaded the topic.
        newest_ledger: the newest ledger that was known before the owner moved.
        loaded: how many times the topic was loaded.
        away: each consumer that is served here: its client, and how it lost its owner.

    Returns:
        Whether the copy can go on, and the entries that were acked again.
    """
    owner, cursor = _ask(serving, told, acked, written, loaded)
    relayed = {
        one: _Relayed(
            [_ack([entry]) for by, entry in serving.alone if by == one],
            bool(how & SENT_AWAY),
            NOW if how & LOST else None,
        )
        for one, how in away
    }
    consumers: Any = list(relayed.values())
    together: Any = _Together(serving)
    back: Any = relayed[client]
    goes_on = _run(cursor.can_resume(back, 1.0, owner.told, newest_ledger, consumers, together))
    again = bits(entry for one in consumers for entry in range(serving.entries) if one.acked >> entry & 1)
    serving.alone += [(client, entry) for entry in range(serving.entries) if again >> entry & 1]
    if not goes_on:
        serving.acks.forget()
        serving.recent.forget()
    return bool(goes_on), again


def compare_non_durable(serving: Serving, told: int, newest_ledger: int, loaded: int, resumed_at: int) -> bool:
    """Compare after a reader has come to an owner that has none of its cursor.

    Args:
        serving: the subscription.
        told: how many entries the owner's new cursor has passed.
        newest_ledger: the newest ledger that was known before the owner moved.
        loaded: how many times the topic was loaded.
        resumed_at: behind how many entries the reader has asked to go on; NONE where it has asked for what it began with.

    Returns:
        Whether the copy can go on.
    """
    owner, cursor = _ask(serving, (1 << told) - 1, 0, 0, loaded)
    at = None if resumed_at < 0 else position(resumed_at - 1)
    relayed: Any = _Relayed([], closed_by_owner=False, lost_at=None, resumed_at=at)
    together: Any = _Together(serving)
    return bool(_run(cursor.can_resume(relayed, 1.0, owner.told, newest_ledger, [relayed], together)))


def refresh(serving: Serving, acked: int, loaded: int) -> None:
    """The copy follows the owner's cursor, which another broker may have moved (Subscription.refresh)."""
    _, cursor = _ask(serving, acked, acked, 0, loaded)
    relayed: Any = _Relayed([], closed_by_owner=False, lost_at=None)
    _run(cursor.refresh(lambda: [relayed]))
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
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the coroutine waits")
