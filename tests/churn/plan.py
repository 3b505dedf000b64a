"""What is done to whom and when: a random plan, the same again for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES: Final = ("Exclusive", "Failover", "Shared", "Key_Shared")
MOST: Final = {"Exclusive": 1, "Failover": 3, "Shared": 4, "Key_Shared": 4}
"""Consumers of a subscription at a time."""

BETWEEN_STEPS_S: Final = 6.0
"""On average, from one coming or going of a subscription to its next."""

BETWEEN_SEEKS_S: Final = 15.0
DISTURB_EVERY_S: Final = 60.0
"""In each such time a read-only broker is killed once, and each topic unloaded once."""

DOWN_S: Final = (3.0, 8.0)


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """One subscription.

    Attributes:
        name: `TOPIC/SUBSCRIPTION`.
        topic: number of its topic.
        type: one of TYPES.
        cumulative: whether its consumers ack cumulatively.
        seeks: whether it is moved now and then.
        stock: whether its consumers are stock Python clients.
    """

    name: str
    topic: int
    type: str
    cumulative: bool = False
    seeks: bool = False
    stock: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do.

    Attributes:
        at: seconds after the start.
        action: open, close or drop (a consumer), seek (a subscription), kill (a read-only broker), unload (a topic).
        subscription: whose consumer.
        number: of the consumer, broker or topic.
        amount: for seek how far back from the newest message, as a part of all; for kill the seconds until it is back.
    """

    at: float
    action: str
    subscription: str = ""
    number: int = 0
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run.

    Attributes:
        seed: what it was made from.
        seconds: how long.
        topics: how many.
        subscriptions: all of them.
        steps: by time.
    """

    seed: int
    seconds: float
    topics: int
    subscriptions: tuple[SubscriptionPlan, ...]
    steps: tuple[Step, ...]


def plan_subscriptions(topics: int) -> tuple[SubscriptionPlan, ...]:
    """Each topic has one subscription of each type, one that is moved, and one of stock clients, the types by turns."""
    made = []
    for topic in range(topics):
        for index, type_ in enumerate(TYPES):
            name = f"topic-{topic}/{type_.lower()}"
            # Cumulative acks are for Exclusive and Failover only; topics take turns.
            made.append(SubscriptionPlan(name, topic, type_, cumulative=index < 2 and (index + topic) % 2 == 0))
        for index in (topic, topic + 2):
            type_ = TYPES[index % len(TYPES)]
            made.append(SubscriptionPlan(f"topic-{topic}/{type_.lower()}-seeks", topic, type_, seeks=True))
            type_ = TYPES[(index + 1) % len(TYPES)]
            made.append(SubscriptionPlan(f"topic-{topic}/{type_.lower()}-stock", topic, type_, stock=True))
    return tuple(made)


def make_plan(seed: int, seconds: float, topics: int, brokers: int) -> Plan:
    """Plan a run.

    Args:
        seed: makes the plan.
        seconds: how long clients come and go.
        topics: how many topics.
        brokers: how many read-only brokers there are to kill; 0 for none.
    """
    subscriptions = plan_subscriptions(topics)
    steps: list[Step] = []
    for subscription in subscriptions:
        # A generator each: what one subscription does leaves the others as they are.
        rng = random.Random(f"{seed} {subscription.name}")
        steps += _comings_and_goings(rng, subscription, seconds)
    steps += _disturbances(random.Random(f"{seed} disturbances"), seconds, topics, brokers)
    return Plan(seed, seconds, topics, subscriptions, tuple(sorted(steps, key=lambda step: step.at)))


def _comings_and_goings(rng: random.Random, subscription: SubscriptionPlan, seconds: float) -> Iterator[Step]:
    most = MOST[subscription.type]
    last = rng.randint(1, most)
    here = list(range(last))
    for number in here:
        yield Step(0.0, "open", subscription.name, number)
    next_seek = rng.uniform(0.3, 1.0) * BETWEEN_SEEKS_S
    now = rng.expovariate(1 / BETWEEN_STEPS_S)
    while now < seconds:
        if subscription.seeks and now > next_seek and here:
            yield Step(now, "seek", subscription.name, here[0], rng.random() ** 2)
            next_seek = now + rng.uniform(0.7, 1.3) * BETWEEN_SEEKS_S
        elif not here or (len(here) < most and rng.random() < 0.5):
            here.append(last)
            yield Step(now, "open", subscription.name, last)
            last += 1
        else:
            number = here.pop(rng.randrange(len(here)))
            yield Step(now, "close" if subscription.stock or rng.random() < 0.6 else "drop", subscription.name, number)
        now += rng.expovariate(1 / BETWEEN_STEPS_S)


def _disturbances(rng: random.Random, seconds: float, topics: int, brokers: int) -> Iterator[Step]:
    begin = 0.0
    while begin < seconds:
        length = min(DISTURB_EVERY_S, seconds - begin)
        for topic in range(topics):
            yield Step(begin + rng.uniform(0.1, 0.9) * length, "unload", number=topic)
        if brokers:
            at = begin + rng.uniform(0.1, 0.7) * length
            yield Step(at, "kill", number=rng.randrange(brokers), amount=rng.uniform(*DOWN_S))
        begin += DISTURB_EVERY_S
