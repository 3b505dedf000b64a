"""Guards of topics that no binding covers stay as they are: the operator may have removed them."""

import asyncio
from contextlib import contextmanager

import pytest
from readonly_engine.broker.cursors import guard_keeper as module
from readonly_engine.broker.cursors.guard_keeper import GuardKeeper
from readonly_engine.broker.cursors.guard_policies import GuardPolicies
from readonly_engine.broker.cursors.topic_cursors import TopicCursors
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.cursor_admin import CursorState
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position

from tests.support.played_admin import PlayedAdmin

TOPIC = "persistent://shop/eu/orders"


def owner(guard=None, **answers):
    """An owner whose topic has a guard, or none."""
    usual = {
        "take_turn": None,
        "cursor": CursorState(guard, ()),
        "create_subscription": True,
        "move_subscription": True,
    }
    return PlayedAdmin(**usual | answers)


class Stored:
    """A store with one cursor."""

    topics = ()
    waited = ()

    def take_stored(self):
        return set()

    def __init__(self):
        self.cursors = TopicCursors(TOPIC)
        self.cursors.create("audit", Position(7, 3), 0, [])

    def slowest(self, topic):
        return self.cursors.slowest

    def forget_empty(self):
        pass

    def commit_of(self, topic):
        return 7

    def has(self, topic):
        return len(self.cursors) > 0

    async def wait_stored(self, number):
        self.waited = (*self.waited, number)


async def not_deleted(topic):
    return False


async def no_policies(topic):
    return GuardPolicies()


def keeper_of(admin, store, **changed):
    """Return a keeper of guards that nothing disturbs, except what is changed."""
    usual = {
        "expire": lambda *_: None,
        "forget_if_deleted": not_deleted,
        "is_bound": lambda _: True,
        "is_held": lambda: True,
        "policies_of": no_policies,
    }
    return GuardKeeper(admin, "guard-0", store, **usual | changed)


@pytest.mark.parametrize("bound", [True, False])
async def test_only_the_guards_of_bound_topics_are_made_again(bound):
    admin, asked = owner(), []
    keeper = keeper_of(admin, Stored(), is_bound=lambda topic: asked.append(topic) or bound)
    await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)
    keeper.close()
    assert asked == [parse_topic_name(TOPIC)]
    made = (parse_topic_name(TOPIC), "guard-0", Position(7, -1))
    assert admin.requests("create_subscription") == [made] * bound


@pytest.mark.parametrize("at_owner", [None, Position(3, -1)])
def test_a_broker_whose_lease_has_ended_moves_no_guard(at_owner):
    """It was frozen. The next holder would take the move for an expiry, and skip unacked messages."""

    async def check(*, held):
        keeper = keeper_of(admin, Stored(), is_held=lambda: held)
        await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)
        keeper.close()

    admin = owner(at_owner)
    for held, changes in ((False, 0), (True, 1)):
        asyncio.run(check(held=held))
        assert admin.count("create_subscription") + admin.count("move_subscription") == changes


@pytest.mark.parametrize("deleted", [True, False])
async def test_an_owner_that_does_not_answer_for_a_topic_may_have_deleted_it(deleted, caplog):
    async def forget_if_deleted(topic):
        asked.append(topic)
        return deleted

    asked = []
    keeper = keeper_of(owner(cursor=OwnerUnavailableError("HTTP 404")), Stored(), forget_if_deleted=forget_if_deleted)
    await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)
    keeper.close()
    assert asked == [parse_topic_name(TOPIC)]
    assert ("guard of local cursors not moved" in caplog.text) != deleted


async def test_a_guard_that_could_not_be_removed_is_removed_later(monkeypatch):
    """Else it would hold the retention forever: its topic has no cursor any more."""
    monkeypatch.setattr(module, "POLL_INTERVAL_S", 0.0)
    store, refusals = Stored(), [OwnerUnavailableError("silent")]

    def delete(*_):
        return refusals.pop() if refusals else removed.set()

    removed = asyncio.Event()
    keeper = keeper_of(owner(Position(7, -1), delete_subscription=delete), store)
    store.cursors.delete(store.cursors.find("audit"))
    await keeper._try(TOPIC, keeper._of(TOPIC), poll=False)
    assert not removed.is_set()
    async with asyncio.timeout(5):
        await removed.wait()
        while TOPIC in keeper._topics:
            await asyncio.sleep(0)
    keeper.close()


@pytest.mark.parametrize("known", [True, False])
async def test_cursors_of_a_former_topic_have_no_guard_in_the_new_one(known):
    """The guard is gone with the topic, whether this broker has asked for it before or believes to know where it is."""
    store, admin = Stored(), owner(move_subscription=False)

    async def forget_if_deleted(topic):
        for cursor in list(store.cursors):
            store.cursors.delete(cursor)
        keeper.forget(topic)
        return True

    keeper = keeper_of(admin, store, forget_if_deleted=forget_if_deleted)
    if known:
        found = keeper._of(TOPIC)
        found.guard.mark_delete, found.known = Position(9, -1), True
    async with keeper.retained(parse_topic_name(TOPIC), Position(8, 2)):
        pass
    keeper.close()
    made = (parse_topic_name(TOPIC), "guard-0", Position(8, -1))
    assert admin.requests("create_subscription") == [made], "it holds what the new cursor needs"
    assert len(store.cursors) == 0


class Kept(PlayedAdmin):
    """An owner that has a guard.

    Attributes:
        guard: where it is.
        moved: where it was moved, in order.
        answers: whether it answers a move.
    """

    def __init__(self, guard):
        super().__init__(take_turn=None)
        self.guard, self.moved, self.answers = guard, [], True

    async def cursor(self, topic, subscription):
        return CursorState(self.guard, (), 1 << 20)

    async def create_subscription(self, topic, subscription, mark_delete):
        if not self.answers:
            raise OwnerUnavailableError("silent")
        return True

    async def move_subscription(self, topic, subscription, mark_delete):
        if not self.answers:
            raise OwnerUnavailableError("silent")
        self.guard = mark_delete
        self.moved.append(mark_delete)
        return True


@contextmanager
def looking(admin, *, policies=None, **changed):
    """Make a keeper; yields the store, a look at the guard, and the positions that were expired."""

    async def policies_of(topic):
        return policies

    store, expired = Stored(), []
    keeper = keeper_of(admin, store, expire=lambda _, at: expired.append(at), policies_of=policies_of, **changed)

    async def look(*, since_s=None):
        if since_s is not None:  # its last move
            keeper._of(TOPIC).moved_at = asyncio.get_running_loop().time() - since_s
        await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)

    yield store, look, expired
    keeper.close()


@pytest.mark.parametrize(
    ("policies", "since_s", "moved"),
    [
        (None, 1e6, []),
        (GuardPolicies(quota_bytes=40 << 20), 10.0, [Position(7, 7)]),
        (GuardPolicies(quota_bytes=40 << 20), 9.0, []),
        (GuardPolicies(quota_bytes=50 << 20), 1e6, []),
        (GuardPolicies(expiration_s=60), 15.0, [Position(7, 7)]),
        (GuardPolicies(expiration_s=60), 14.0, []),
    ],
)
async def test_a_guard_follows_inside_of_a_ledger_where_a_policy_counts_its_backlog(policies, since_s, moved):
    """Else a quota would stop producers, though all consumers have acked. It lags by 4 MiB."""
    admin = Kept(Position(7, 3))
    with looking(admin, policies=policies) as (store, look, expired):
        await look(since_s=0.0)
        store.cursors.expire(store.cursors.find("audit"), Position(7, 7))
        await look(since_s=since_s)
        assert (admin.moved, expired, store.waited) == (moved, [], (7,) * len(moved))


async def test_a_late_move_of_a_former_holder_is_undone_and_an_expiry_is_not():
    """The former holder was frozen. Then a client has moved its cursor from 7:3 back to 5:1, and the guard."""
    admin = Kept(Position(7, -1))
    with looking(admin) as (store, look, expired):
        await look()
        cursor = store.cursors.find("audit")
        store.cursors.reset(cursor, Position(5, 1))
        await look()
        assert admin.guard == Position(5, -1)
        for _ in range(2):  # it is thawed
            admin.guard = Position(7, -1)
            await look()
            assert (admin.guard, expired) == (Position(5, -1), [])
        admin.guard = Position(7, -1)
        await look()
        assert expired == [Position(7, -1)]


@pytest.mark.parametrize("unanswered", [False, True])
async def test_a_guard_that_was_made_at_the_end_and_not_moved_is_no_expiry(unanswered):
    """An owner that dies in between, or is silent, leaves a new subscription at the end of the topic."""
    admin = Kept(None if unanswered else Position(9, 4))
    with looking(admin) as (_, look, expired):
        if unanswered:
            admin.answers = False
            await look()
            admin.answers, admin.guard = True, Position(9, 4)
        await look()
        assert (admin.guard, expired) == (Position(7, -1), [])
        admin.guard = Position(8, 0)
        await look()
        assert expired == [Position(8, 0)]


async def test_an_expiry_is_not_undone_before_connected_cursors_have_it():
    """The cursor of a connected consumer is in the store with the next commit, and the guard must not go back to it."""

    class Committing(Stored):
        expired = ()

        async def wait_stored(self, number):
            for position in self.expired:
                self.cursors.expire(self.cursors.find("audit"), position)

    admin = Kept(Position(7, -1))
    store = Committing()
    keeper = keeper_of(admin, store, expire=lambda _, at: setattr(store, "expired", (at,)))
    for place in (Position(7, -1), Position(9, 2)):
        admin.guard = place
        await keeper._try(TOPIC, keeper._of(TOPIC), poll=True)
    keeper.close()
    assert admin.moved == []


async def test_a_move_that_its_owner_has_not_answered_may_come_late():
    admin = Kept(Position(7, -1))
    with looking(admin) as (store, look, expired):
        await look()
        cursor = store.cursors.find("audit")
        store.cursors.expire(cursor, Position(9, 4))
        admin.answers = False
        await look()
        admin.answers = True
        store.cursors.reset(cursor, Position(7, 5))
        admin.guard = Position(9, -1)
        await look()
        assert (admin.guard, expired) == (Position(7, -1), [])
