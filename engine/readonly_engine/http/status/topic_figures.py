"""Figures of the topics, subscriptions and consumers of one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.broker.consumer.client_consumer import ClientConsumer
from readonly_engine.broker.split.subscription import SplitSubscription
from readonly_engine.http.status.listing import page_of
from readonly_engine.status.state import (
    BOOKIES,
    HERE,
    OWNER,
    RELAYED,
    ClientState,
    Pages,
    SubscriptionState,
    TopicState,
)
from readonly_engine.status.text import MAX_CLIPPED, clipped
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from readonly_engine.broker.consumer.rates import Rate
    from readonly_engine.broker.passthrough.policy import PassedThrough
    from readonly_engine.broker.subscription.served_topic import ServedTopic
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.http.status.rates import RecentRates
    from readonly_engine.http.status.slices import Slices
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.status.view import View

MAX_STEPS: Final = 100_000
"""Steps for the figures of a page, about 0.2 s. Later topics of the page are listed without their rates and lag."""

RELAYED_STEPS: Final = 5
"""Steps for a relayed consumer, whose SUBSCRIBE is decoded for its name."""

UNBOUND: Final = "unbound"
"""Reason of passthrough of a subscription that no binding names."""


class Listed(NamedTuple):
    """The page of a list, as in Status."""

    pages: Pages
    topics: tuple[TopicState, ...]
    subscriptions: tuple[SubscriptionState, ...] = ()
    clients: tuple[ClientState, ...] = ()
    shortened: bool = False


class _Members(NamedTuple):
    """Subscriptions of a topic by name: those that this broker serves, and the consumers of those served elsewhere."""

    served: Mapping[str, Subscription]
    relayed: Mapping[str, list[ClientConsumer]]

    @property
    def names(self) -> set[str]:
        return self.served.keys() | self.relayed.keys()


class PageFigures:
    """Reads the figures of one page.

    Args:
        rates: rates of the figures that were shown before.
        view: the list and its page.
        slices: gives the event loop its turns.
        now: the time, in seconds.
        passing: the passthrough subscriptions.
    """

    def __init__(
        self,
        rates: RecentRates[object],
        view: View,
        slices: Slices,
        now: float,
        passing: Mapping[tuple[TopicName, str], PassedThrough],
    ) -> None:
        self._rates = rates
        self._view = view
        self._slices = slices
        self._now = now
        self._passing = passing
        self._max_steps = slices.steps + MAX_STEPS
        self._shortened = False

    async def topics(
        self, entries: Iterable[tuple[TopicName, ServedTopic | None, Sequence[ClientConsumer]]], pages: Pages
    ) -> Listed:
        """Return the figures of topics, each with its consumers that another broker serves."""
        found = []
        for topic, served, relayed in entries:
            found.append(await self._topic(topic, served, await self._members(served, relayed)))
        return Listed(pages, tuple(found), shortened=self._shortened)

    async def topic(
        self, topic: TopicName, served: ServedTopic | None, relayed: Sequence[ClientConsumer]
    ) -> Listed | None:
        """Return the page of a topic's subscriptions, or of a subscription's consumers; None without that subscription."""
        members, view = await self._members(served, relayed), self._view
        if view.subscription:
            if view.subscription not in members.names:
                return None
            # In the order of their arrival: a sort of all would hold the event loop up.
            chosen, pages = page_of(self._consumers(members, view.subscription), view.page)
            row = self._subscription(topic, view.subscription, members)
            clients = tuple(_client(one) for one in chosen)
            return Listed(pages, (await self._topic(topic, served, members),), (row,), clients, self._shortened)
        names, pages = page_of(sorted(name for name in members.names if name.startswith(view.prefix)), view.page)
        rows = []
        for name in names:
            rows.append(self._subscription(topic, name, members))
            served_here = members.served.get(name)
            steps = 1 if served_here is None else served_here.backlog_steps + len(served_here.consumers)
            if self._slices.add(steps + len(members.relayed.get(name, ()))):
                await self._slices.pause()
        return Listed(pages, (await self._topic(topic, served, members),), tuple(rows), (), self._shortened)

    async def _members(self, served: ServedTopic | None, relayed: Sequence[ClientConsumer]) -> _Members:
        found: dict[str, list[ClientConsumer]] = {}
        for consumer in relayed:
            found.setdefault(consumer.info.name, []).append(consumer)
            if self._slices.add(RELAYED_STEPS):
                await self._slices.pause()
        return _Members({} if served is None else dict(served.subscriptions), found)

    async def _topic(self, topic: TopicName, served: ServedTopic | None, members: _Members) -> TopicState:
        messages = size = consumers = passed = 0
        lag, slowest, complete = None, "", True
        for name, subscription in members.served.items():
            consumers += len(subscription.consumers)
            steps = 1
            if self._slices.steps > self._max_steps:
                complete = False
            else:
                subscription.flush_accounting()
                messages += subscription.counters.messages
                size += subscription.counters.bytes
                entries, steps = subscription.backlog, subscription.backlog_steps
                if lag is None or entries > lag:
                    lag, slowest = entries, name
            if self._slices.add(steps):
                await self._slices.pause()
        for relayed in members.relayed.values():
            consumers += len(relayed)
            passed += relayed[0].served_by == OWNER
            messages += sum(one.messages for one in relayed)
            size += sum(one.bytes for one in relayed)
        if not complete:
            self._shortened = True
            lag, slowest = None, ""
        full_name = str(topic)
        rate = self._rate(topic, full_name, messages, size) if complete else None
        tail = RELAYED
        if served is not None:
            tail = OWNER if served.tail is not None and served.tail.pushed else BOOKIES
        return TopicState(
            name=clipped(full_name),
            subscriptions=len(members.names),
            consumers=consumers,
            message_rate=None if rate is None else rate.messages,
            byte_rate=None if rate is None else rate.bytes,
            lag=lag,
            slowest=clipped(slowest),
            tail=tail,
            passed_through=passed,
        )

    def _subscription(self, topic: TopicName, name: str, members: _Members) -> SubscriptionState:
        subscription, relayed = members.served.get(name), members.relayed.get(name, [])
        messages, size = sum(one.messages for one in relayed), sum(one.bytes for one in relayed)
        unacked = sum(one.figures().unacked for one in relayed)
        consumers, served_by, reason, finding, kind, lag, position = len(relayed), HERE, "", "", "", None, ""
        if subscription is None:
            first = relayed[0]
            kind = _kind(first.info.kind)
            served_by = first.served_by
            passed = self._passing.get((topic, name))
            if served_by == OWNER and passed is not None:
                reason, finding = passed.reason, passed.text
            elif served_by == OWNER and not first.bound:
                reason = UNBOUND
        if subscription is not None:
            subscription.flush_accounting()
            messages += subscription.counters.messages
            size += subscription.counters.bytes
            unacked += sum(one.dispatch_state.unacked for one in subscription.consumers)
            consumers += len(subscription.consumers)
            kind, lag = _kind(subscription.kind), subscription.backlog
            position, served_by = str(subscription.mark_delete), HERE
        runner = subscription.runner if isinstance(subscription, SplitSubscription) else None
        rate = self._rate((topic, name), name, messages, size)
        return SubscriptionState(
            name=clipped(name),
            kind=kind,
            consumers=consumers,
            message_rate=None if rate is None else rate.messages,
            byte_rate=None if rate is None else rate.bytes,
            lag=lag,
            unacked=unacked,
            mark_delete=position,
            served_by=served_by,
            reason=reason,
            finding=clipped(finding),
            split="" if runner is None else runner.state,
            coordinator="" if runner is None else clipped(runner.coordinator),
            members=0 if runner is None else len(runner.members),
        )

    def _rate(self, key: object, name: str, messages: int, size: int) -> Rate | None:
        """Return the rate since the last page; None for a long name, which is not kept."""
        return self._rates.of(key, messages, size, self._now) if len(name) <= MAX_CLIPPED else None

    @staticmethod
    def _consumers(members: _Members, name: str) -> list[ClientConsumer]:
        subscription = members.served.get(name)
        own = [] if subscription is None else [one for one in subscription.consumers if isinstance(one, ClientConsumer)]
        return own + members.relayed.get(name, [])


def _kind(number: CommandSubscribe.SubType) -> str:
    """Return Pulsar's name of a subscription type. A client may have sent a number without one."""
    try:
        return CommandSubscribe.SubType.Name(number)
    except ValueError:
        return f"unknown type {number}"


def _client(consumer: ClientConsumer) -> ClientState:
    figures = consumer.figures()
    return ClientState(
        name=clipped(consumer.consumer_name),
        address=consumer.connection.peer,
        version=clipped(consumer.connection.client_version),
        permits=figures.permits,
        unacked=figures.unacked,
        messages=figures.messages,
        bytes=figures.bytes,
    )
