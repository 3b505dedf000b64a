import asyncio
from types import SimpleNamespace

from readonly_engine.broker.subscription import cursor_poller, owner_queries
from readonly_engine.broker.subscription.cursor_poller import CursorPoller
from readonly_engine.broker.subscription.owner_queries import OwnerQueries
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position

STATE = OwnerCursorState(Position(3, 7), Position(4, 0))


class OwnerConsumer:
    """A consumer at its owner."""

    def __init__(self, *, attached=True, fails=False, hangs=False):
        self.subscribed = attached
        self.fails = fails
        self.hangs = hangs
        self.asked = 0

    async def state(self):
        self.asked += 1
        if self.fails:
            raise OwnerUnavailableError("no answer")
        if self.hangs:
            await asyncio.Event().wait()
        return STATE


class Subscription:
    """A subscription that records the states of its owner."""

    topic = "a topic"
    name = "s"

    sent_acks = "acks before the request"

    def __init__(self, *owner_consumers, durable=True, behind=True, unverified=False, ahead=False):
        self.consumers = [SimpleNamespace(owner_consumer=one) for one in owner_consumers]
        self.durable = durable
        self.has_backlog = behind
        self.has_unverified_acks = unverified
        self.ahead = ahead
        self.told = []
        self.verified = []

    def follow_owner(self, state):
        self.told.append(state)
        return not self.ahead

    async def repeat_ignored_acks(self, owner_consumer, sent, state):
        self.verified.append((owner_consumer, sent, state))


def quick(monkeypatch):
    monkeypatch.setattr(cursor_poller, "POLL_INTERVAL_S", 0.005)
    monkeypatch.setattr(cursor_poller, "MAX_POLLS_PER_S", 1000.0)


async def test_the_owner_is_asked_where_durable_subscriptions_stand_that_are_behind(monkeypatch):
    quick(monkeypatch)
    monkeypatch.setattr(owner_queries, "STATE_TIMEOUT_S", 0.01)
    away, there = OwnerConsumer(attached=False), OwnerConsumer()
    failing = Subscription(OwnerConsumer(fails=True))
    unanswered = Subscription(OwnerConsumer(hangs=True))
    followed = Subscription(away, there)
    left_alone = [
        Subscription(OwnerConsumer(), durable=False),
        Subscription(OwnerConsumer(), behind=False),
        Subscription(OwnerConsumer(attached=False)),
        Subscription(),
    ]
    queries = OwnerQueries(None, None, None, None, None)
    watch = CursorPoller(lambda: [failing, unanswered, *left_alone, followed], queries.consumer_state)
    watch.start()
    watch.start()
    async with asyncio.timeout(10):
        while len(followed.told) < 3:
            await asyncio.sleep(0)
    watch.close()
    assert set(followed.told) == {STATE}
    assert away.asked == 0
    assert failing.told == unanswered.told == []
    assert all(subscription.told == [] for subscription in left_alone)


async def test_acks_that_the_owner_has_not_shown_yet_are_verified_at_each_interval(monkeypatch):
    quick(monkeypatch)
    monkeypatch.setattr(cursor_poller, "BACKLOG_INTERVALS", 10**9)
    owner = OwnerConsumer()
    ahead = Subscription(owner, behind=False, unverified=True, ahead=True)
    followed = Subscription(OwnerConsumer(), behind=False, unverified=True)
    behind = Subscription(OwnerConsumer())
    non_durable = Subscription(OwnerConsumer(), unverified=True, durable=False)
    queries = OwnerQueries(None, None, None, None, None)
    poller = CursorPoller(lambda: [ahead, followed, behind, non_durable], queries.consumer_state)
    poller.start()
    async with asyncio.timeout(10):
        while len(followed.told) < 3:
            await asyncio.sleep(0)
    poller.close()
    assert set(ahead.verified) == {(owner, "acks before the request", STATE)}
    assert followed.verified == behind.told == non_durable.told == []
