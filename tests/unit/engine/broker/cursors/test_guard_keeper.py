"""Guards of topics that no binding covers stay as they are: the operator may have removed them."""

from __future__ import annotations

import asyncio

import pytest
from readonly_engine.broker.cursors import guard_keeper as module
from readonly_engine.broker.cursors.guard_keeper import GuardKeeper
from readonly_engine.broker.cursors.topic_cursors import TopicCursors
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.cursor_admin import CursorState
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position

TOPIC = "persistent://shop/eu/orders"


class Admin:
    """An owner whose topic has no guard."""

    def __init__(self):
        self.created = []

    async def take_turn(self):
        pass

    async def cursor(self, topic, subscription):
        return CursorState(None, {})

    async def create_subscription(self, topic, subscription, mark_delete):
        self.created.append((str(topic), subscription, mark_delete))
        return True


class Stored:
    """A store with one cursor."""

    begun = 0
    topics = ()

    def take_stored(self):
        return set()

    def __init__(self):
        self.cursors = TopicCursors(TOPIC)
        self.cursors.create("audit", Position(7, 3), 0, [])

    def slowest(self, topic):
        return self.cursors.slowest

    def forget_empty(self):
        pass

    def has(self, topic):
        return len(self.cursors) > 0

    async def wait_stored(self, number):
        pass


async def not_deleted(topic):
    return False


@pytest.mark.parametrize("bound", [True, False])
def test_only_the_guards_of_bound_topics_are_made_again(bound):
    admin, asked = Admin(), []

    async def check():
        keeper = GuardKeeper(
            admin,
            "guard-0",
            Stored(),
            lambda *_: None,
            not_deleted,
            lambda topic: asked.append(topic) or bound,
            lambda: True,
        )
        await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)
        keeper.close()

    asyncio.run(check())
    assert asked == [parse_topic_name(TOPIC)]
    assert admin.created == ([(TOPIC, "guard-0", Position(7, -1))] if bound else [])


@pytest.mark.parametrize("at_owner", [None, Position(3, -1)])
def test_a_broker_whose_lease_has_ended_moves_no_guard(at_owner):
    """It was frozen. The next holder would take the move for an expiry, and skip unacked messages."""

    class Thawed(Admin):
        async def cursor(self, topic, subscription):
            return CursorState(at_owner, {})

        async def move_subscription(self, topic, subscription, mark_delete):
            self.created.append(mark_delete)
            return True

    async def check(*, held):
        keeper = GuardKeeper(admin, "guard-0", Stored(), lambda *_: None, not_deleted, lambda _: True, lambda: held)
        await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)
        keeper.close()

    admin = Thawed()
    for held, changes in ((False, 0), (True, 1)):
        asyncio.run(check(held=held))
        assert len(admin.created) == changes


@pytest.mark.parametrize("deleted", [True, False])
def test_an_owner_that_does_not_answer_for_a_topic_may_have_deleted_it(deleted, caplog):
    class Gone(Admin):
        async def cursor(self, topic, subscription):
            raise OwnerUnavailableError("HTTP 404")

    async def forget_if_deleted(topic):
        asked.append(topic)
        return deleted

    async def check():
        keeper = GuardKeeper(
            Gone(), "guard-0", Stored(), lambda *_: None, forget_if_deleted, lambda _: True, lambda: True
        )
        await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)
        keeper.close()

    asked = []
    asyncio.run(check())
    assert asked == [parse_topic_name(TOPIC)]
    assert ("guard of local cursors not moved" in caplog.text) != deleted


def test_a_guard_that_could_not_be_removed_is_removed_later(monkeypatch):
    """Else it would hold the retention forever: its topic has no cursor any more."""
    monkeypatch.setattr(module, "POLL_INTERVAL_S", 0.0)
    store, refusals = Stored(), [True]

    class Busy(Admin):
        async def cursor(self, topic, subscription):
            return CursorState(Position(7, -1), {})

        async def delete_subscription(self, topic, subscription):
            if refusals:
                refusals.pop()
                raise OwnerUnavailableError("silent")
            removed.set()

    async def scene():
        keeper = GuardKeeper(Busy(), "guard-0", store, lambda *_: None, not_deleted, lambda _: True, lambda: True)
        store.cursors.delete(store.cursors.find("audit"))
        await keeper._try(TOPIC, keeper._of(TOPIC), poll=False)
        assert not removed.is_set()
        async with asyncio.timeout(5):
            await removed.wait()
            while TOPIC in keeper._topics:
                await asyncio.sleep(0)
        keeper.close()

    removed = asyncio.Event()
    asyncio.run(scene())


@pytest.mark.parametrize("known", [True, False])
def test_cursors_of_a_former_topic_have_no_guard_in_the_new_one(known):
    """The guard is gone with the topic, whether this broker has asked for it before or believes to know where it is."""
    store, admin = Stored(), Admin()

    async def moved(topic, subscription, mark_delete):
        return False

    async def forget_if_deleted(topic):
        for cursor in list(store.cursors):
            store.cursors.delete(cursor)
        keeper.forget(topic)
        return True

    async def scene():
        nonlocal keeper
        keeper = GuardKeeper(admin, "guard-0", store, lambda *_: None, forget_if_deleted, lambda _: True, lambda: True)
        if known:
            found = keeper._of(TOPIC)
            found.guard.mark_delete, found.known = Position(9, -1), True
        async with keeper.retained(parse_topic_name(TOPIC), Position(8, 2)):
            pass
        keeper.close()

    keeper = None
    admin.move_subscription = moved
    asyncio.run(scene())
    assert admin.created == [(TOPIC, "guard-0", Position(8, -1))], "it holds what the new cursor needs"
    assert len(store.cursors) == 0
