"""Random plan of a run: actions with times and targets, reproducible by the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES: Final = ("Exclusive", "Failover", "Shared", "Key_Shared")
MOST: Final = {"Exclusive": 1, "Failover": 3, "Shared": 4, "Key_Shared": 4}
"""Consumers of a subscription at a time."""

BETWEEN_STEPS_S: Final = 6.0
"""Average time between two connects or disconnects of a subscription, in seconds."""

BETWEEN_SEEKS_S: Final = 15.0
DISTURB_EVERY_S: Final = 60.0
"""Interval in which one read-only broker is killed, and each topic is unloaded, in seconds."""

DOWN_S: Final = (3.0, 8.0)


class Keys(StrEnum):
    """Which consumers of a Key_Shared subscription get which keys, and in which order."""

    AUTO_SPLIT = "AUTO_SPLIT"
    STICKY = "STICKY"
    """Consumers with even numbers get the lower half of all hashes, others the upper half."""

    ANY_ORDER = "AUTO_SPLIT out of order"


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """One subscription.

    Attributes:
        name: `TOPIC/SUBSCRIPTION`.
        topic: number of its topic.
        type: one of TYPES.
        cumulative: whether its consumers ack cumulatively.
        seeks: whether it is moved by seeks now and then.
        stock: whether its consumers are stock Python clients.
        keys: of Key_Shared: who gets which keys.
    """

    name: str
    topic: int
    type: str
    cumulative: bool = False
    seeks: bool = False
    stock: bool = False
    keys: Keys = Keys.AUTO_SPLIT


@dataclass(frozen=True, slots=True)
class Step:
    """One action.

    Attributes:
        at: seconds after the start.
        action: open, close or drop (a consumer), seek (a subscription), kill (a read-only broker), unload (a topic).
        subscription: the consumer's subscription.
        number: number of the consumer, broker or topic.
        amount: of a seek, its distance from the newest message, as a part of all; of a kill, the seconds until the restart.
    """

    at: float
    action: str
    subscription: str = ""
    number: int = 0
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run.

    Attributes:
        seed: its seed.
        seconds: duration.
        topics: number of topics.
        subscriptions: all subscriptions.
        steps: actions ordered by time.
    """

    seed: int
    seconds: float
    topics: int
    subscriptions: tuple[SubscriptionPlan, ...]
    steps: tuple[Step, ...]


def plan_subscriptions(topics: int) -> tuple[SubscriptionPlan, ...]:
    """Return the subscriptions: per topic one of each type, one with seeks, and one with stock clients, the types by turns."""
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
        seed: determines the plan.
        seconds: time in which clients connect and disconnect.
        topics: number of topics.
        brokers: number of read-only brokers; 0 for no kills.
    """
    subscriptions = plan_subscriptions(topics)
    steps: list[Step] = []
    for subscription in subscriptions:
        # One generator each, so that a change of one subscription leaves the others as they are.
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
