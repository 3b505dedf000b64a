"""Keeps the guards of one partition: the asyncio shell around guard.py."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from readonly_engine.background import run_forever
from readonly_engine.broker.cursors.coverage import Ledgers
from readonly_engine.broker.cursors.guard import Guard
from readonly_engine.broker.cursors.guard_policies import GuardPolicies
from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from readonly_engine.broker.cursors.store import CursorStore
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_admin import CursorAdmin
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

MOVE_INTERVAL_S: Final = 1.0
"""Interval of checks whether a guard can move on. Most find nothing: the slowest cursor must have left a ledger."""

POLL_INTERVAL_S: Final = 30.0
"""Interval of questions where a guard is, as for the cursors of an owner (CursorPoller)."""


class _TopicGuard:
    """The guard of one topic.

    Args:
        former: the lowest mark-delete position of the stored cursors now; None without a cursor.

    Attributes:
        guard: its state.
        lock: held while it is moved.
        ledgers: the topic's ledgers at the last look.
        known: whether its position at the owner is known.
        policies: what the owner does to it.
        entry_bytes: average size of an entry; 0 if unknown.
        moved_at: time of its last move.
    """

    def __init__(self, former: Position | None) -> None:
        self.guard = Guard(former)
        self.lock = asyncio.Lock()
        self.ledgers = Ledgers(())
        self.known = False
        self.policies = GuardPolicies()
        self.entry_bytes = 0
        self.moved_at = -math.inf

    def target(self, slowest: Position | None, now: float) -> tuple[Position | None, bool]:
        """Return where the guard has to be, None for no guard; and whether it has to move, if only to where it is."""
        since_s = now - self.moved_at
        renews = self.policies.renews(since_s)
        follow = renews or self.policies.follows(self.guard.lag(slowest), self.entry_bytes, since_s)
        target = self.guard.target(slowest, follow=follow)
        return target, target != self.guard.mark_delete or (renews and target is not None)


class GuardKeeper:
    """Moves the guards behind the slowest stored cursors, and follows those that the owner moves.

    Args:
        admin: moves subscriptions at owners.
        name: name of the guards' subscriptions.
        store: the cursors of the partition.
        expire: called with a topic and the mark-delete position to which its owner has moved the guard.
        forget_if_deleted: forgets the cursors of a topic that was deleted; returns whether it was.
        is_bound: returns whether a binding covers a topic. The guards of other topics stay as they are: the operator may have
            removed them.
        is_held: returns whether no other broker can have the partition now. The owner does not fence moves of subscriptions, and
            a broker that was frozen may go on with one before it knows that its session has ended.
        policies_of: returns what the owner does to the guards of a topic; None if unknown.
    """

    def __init__(
        self,
        admin: CursorAdmin,
        name: str,
        store: CursorStore,
        expire: Callable[[str, Position], None],
        forget_if_deleted: Callable[[TopicName], Awaitable[bool]],
        is_bound: Callable[[TopicName], bool],
        is_held: Callable[[], bool],
        policies_of: Callable[[TopicName], Awaitable[GuardPolicies | None]],
    ) -> None:
        self._policies_of = policies_of
        self._now = asyncio.get_running_loop().time
        self._is_held = is_held
        self._admin = admin
        self._name = name
        self._store = store
        self._expire = expire
        self._forget_if_deleted = forget_if_deleted
        self._is_bound = is_bound
        self._topics: dict[str, _TopicGuard] = {}
        self._tasks = [
            run_forever(self._advance_guards_loop, "the move of local cursors' guards"),
            run_forever(self._poll, "the poll of local cursors' guards"),
        ]

    def close(self) -> None:
        """Stop; the guards stay."""
        for task in self._tasks:
            task.cancel()

    @asynccontextmanager
    async def retained(self, topic: TopicName, mark_delete: Position) -> AsyncIterator[None]:
        """Hold the retention for a cursor that is about to be created, or moved, at a position.

        Raises:
            RelayError: the owner does not answer, or does not permit a subscription for it.
            CursorStoreError: the cursors cannot be stored here any more.
        """
        found = self._of(str(topic))
        found.guard.expect(mark_delete)
        try:
            if found.lock.locked() or not found.guard.retains(mark_delete):
                async with found.lock:
                    if not found.guard.retains(mark_delete):  # it may have been moved meanwhile
                        await self._apply(topic, found)
            yield
        finally:
            found.guard.arrived(mark_delete)

    def has(self, topic: TopicName) -> bool:
        """Return whether a topic is known to have a guard."""
        found = self._topics.get(str(topic))
        return found is not None and found.guard.mark_delete is not None

    def forget(self, topic: TopicName) -> None:
        """Forget the guard of a topic that was deleted."""
        found = self._topics.get(str(topic))
        if found is not None:
            found.guard.mark_delete, found.known = None, False
            if not found.guard.expected and not found.lock.locked():
                del self._topics[str(topic)]

    def _of(self, topic: str) -> _TopicGuard:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _TopicGuard(self._store.slowest(topic))
        return found

    async def _apply(self, topic: TopicName, found: _TopicGuard) -> None:
        """Move a guard where it has to be; the caller holds its lock."""
        guard = found.guard
        if not found.known:
            await self._compare(topic, found)
        slowest, now = self._slowest(str(topic), found), self._now()
        if not found.target(slowest, now)[1]:
            return
        await self._store.wait_stored(self._store.commit_of(str(topic)))
        target, moves = found.target(slowest, now)
        if not moves:
            return  # a cursor is expected since then
        if target is None:
            await self._held_admin().delete_subscription(topic, self._name)
        elif guard.mark_delete is None:
            if not await self._held_admin().create_subscription(topic, self._name, target):
                await self._move(topic, found, target)
        elif not await self._move(topic, found, target):
            await self._compare(topic, found)  # somebody has deleted it, maybe with its topic
            target = guard.target(self._slowest(str(topic), found))
            if target is not None:
                await self._held_admin().create_subscription(topic, self._name, target)
        guard.mark_delete, found.moved_at = target, self._now()

    async def _move(self, topic: TopicName, found: _TopicGuard, target: Position) -> bool:
        admin = self._held_admin()
        try:
            return await admin.move_subscription(topic, self._name, target)
        except RelayError:
            found.guard.unanswered(target)
            found.known = False
            raise

    def _held_admin(self) -> CursorAdmin:
        """Return the client for a change at the owner.

        Raises:
            CursorStoreError: another broker may have the partition.
        """
        if not self._is_held():
            raise CursorStoreError("another broker may have these local cursors")
        return self._admin

    def _slowest(self, topic: str, found: _TopicGuard) -> Position | None:
        slowest = self._store.slowest(topic)
        return None if slowest is None else found.ledgers.held_form(slowest)

    async def _compare(self, topic: TopicName, found: _TopicGuard) -> None:
        """Compare a guard with the subscription at the owner, which expiry, a backlog quota or an administrator may move."""
        state = await self._admin.cursor(topic, self._name)
        guard, at_owner = found.guard, state.mark_delete
        if at_owner is None and self._store.has(str(topic)):
            await self._forget_if_deleted(topic)
        found.ledgers, found.known, found.entry_bytes = Ledgers(state.ledgers), True, state.entry_bytes
        found.policies = await self._policies_of(topic) or found.policies
        if at_owner is None:
            guard.mark_delete = None
            return
        at_owner = found.ledgers.held_form(at_owner)
        slowest = self._slowest(str(topic), found)
        expired = guard.expired(at_owner, slowest)
        if guard.mark_delete is None and slowest is not None and at_owner > slowest:
            log.warning("a guard is past local cursors, and moves back: topic=%s at=%s", topic, at_owner)
        guard.mark_delete = at_owner
        if expired:
            if guard.take_late(at_owner):
                log.warning("a guard was moved late, and moves back: topic=%s at=%s", topic, at_owner)
            else:
                log.info("the owner has expired messages of local cursors: topic=%s up to=%s", topic, at_owner)
                self._expire(str(topic), at_owner)
                await self._store.wait_stored(self._store.commit_of(str(topic)))  # connected cursors have it then

    async def _advance_guards_loop(self) -> None:
        while True:
            await asyncio.sleep(MOVE_INTERVAL_S)
            for topic in self._store.take_stored():
                found = self._of(topic)
                if not found.known or found.target(self._slowest(topic, found), self._now())[1]:
                    await self._try(topic, found, poll=False)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            self._store.forget_empty()
            # A guard whose topic has no cursors any more is here because it could not be removed yet.
            for topic in {*self._store.topics, *self._topics}:
                await self._admin.take_turn()
                await self._try(topic, self._of(topic), poll=True)

    async def _try(self, topic: str, found: _TopicGuard, *, poll: bool) -> None:
        name = parse_topic_name(topic)
        if not self._is_bound(name):
            return
        try:
            async with found.lock:
                if poll:
                    await self._compare(name, found)
                await self._apply(name, found)
            if found.guard.mark_delete is None and not found.guard.expected and not found.lock.locked():
                self._topics.pop(topic, None)  # it has no cursors any more
        except (RelayError, CursorStoreError) as error:
            if not await self._forget_if_deleted(name):
                log.warning("guard of local cursors not moved: topic=%s error=%s", topic, error)
