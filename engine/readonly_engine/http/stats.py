"""Statistics of a broker in the form of Pulsar's topic stats, with keys of our own, such as servedBy and lastReadable.

They are JSON as text from the start: in one piece, the encoder would hold the event loop for seconds on a broker with many
consumers.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.broker.consumer.client_consumer import ClientConsumer
from readonly_engine.broker.consumer.rates import Rates
from readonly_engine.broker.consumer.stats import OWNER
from readonly_engine.broker.split.subscription import SplitSubscription
from readonly_engine.http.status.slices import collected
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from readonly_engine.broker.passthrough.policy import PassedThrough
    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.broker.subscription.served_topic import ServedTopic
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.http.status.slices import Slices
    from readonly_engine.metadata.topic_name import TopicName

_RATES: Final = ("msgRateOut", "msgThroughputOut")
_SUMS: Final = (*_RATES, "msgOutCounter", "bytesOutCounter")

STEPS_PER_CONSUMER: Final = 10
STEPS_PER_SUBSCRIPTION: Final = 10
"""Steps for the text of each."""


class Statistics:
    """Statistics of one broker.

    Args:
        broker: the broker.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rates: Rates[tuple[str, ...]] = Rates()

    async def document(self, slices: Slices, tasks: int) -> bytes:
        """Return the statistics of all topics with consumers on this broker, of the pool, and of this broker's claims, as JSON.

        Args:
            slices: gives the event loop its turns.
            tasks: number of tasks of the process.
        """
        broker = self._broker
        relayed = await self._relayed(slices, None)
        passing = await self._passing(slices)
        reasons = {key: one.text for key, one in passing.items()}
        claims = await self._claims(slices)
        served = await collected(broker.topics.all, slices)
        buffered = producers = 0
        for connection in list(broker.connections):
            buffered += connection.buffered
            producers += len(connection.producers)
            if slices.add():
                await slices.pause()
        figures = {
            "brokers": sorted(broker.pool.members),
            "url": broker.pool.url,
            "locality": broker.pool.locality,
            "connections": len(broker.connections),
            "consumers": broker.limits.consumers,
            "bufferedBytes": buffered,
            "producers": producers,
            "localCursors": [
                {
                    "topic": str(key.topic),
                    "subscriptions": len(partition.store),
                    "active": len(partition.subscriptions),
                    "unstored": partition.store.unstored,
                }
                for key, partition in broker.local_cursors.held.items()
            ],
            "tasks": tasks,
        }
        parts = [json.dumps(figures)[:-1], ', "claims": [']
        held = ({"topic": str(key.topic), "subscription": key.subscription} for key in claims)
        parts += [text async for text in _joined(held, slices)]
        parts.append('], "passedThrough": [')
        found = (one._asdict() | {"topic": str(one.topic)} for one in passing.values())
        parts += [text async for text in _joined(found, slices)]
        parts.append('], "topics": {')
        topics = [*served, *(topic for topic in relayed if topic not in served)]
        for number, topic in enumerate(topics):
            parts.append(f"{', ' * bool(number)}{json.dumps(str(topic))}: ")
            parts += await self._topic(topic, served.get(topic), relayed.get(topic, ()), claims, reasons, slices)
        parts.append("}}")
        return await _encoded(parts, slices)

    async def topic(self, topic: TopicName, slices: Slices) -> bytes | None:
        """Return the statistics of one topic, as JSON; None if it has no consumers on this broker."""
        relayed = await self._relayed(slices, topic)
        passing = await self._passing(slices) if relayed else {}
        reasons = {key: one.text for key, one in passing.items()}
        served = (await collected(self._broker.topics.all, slices)).get(topic)
        if served is None and not relayed:
            return None
        claims = await self._claims(slices)
        parts = await self._topic(topic, served, relayed.get(topic, ()), claims, reasons, slices)
        return await _encoded(parts, slices)

    async def _relayed(self, slices: Slices, only: TopicName | None) -> dict[TopicName, list[ClientConsumer]]:
        """Return the consumers that another broker serves, by topic; those of one topic alone if it is given."""
        found: dict[TopicName, list[ClientConsumer]] = {}
        for connection in list(self._broker.connections):
            consumers = connection.consumers
            for consumer in consumers:
                if consumer.served_by and only in {None, consumer.topic}:
                    found.setdefault(consumer.topic, []).append(consumer)
            if slices.add(1 + len(consumers)):
                await slices.pause()
        return found

    async def _claims(self, slices: Slices) -> set[ClaimKey]:
        """Return the claims of this broker."""
        return set(await collected(((key, None) for key in self._broker.claim_store.held), slices))

    async def _passing(self, slices: Slices) -> dict[tuple[TopicName, str], PassedThrough]:
        """Return the passthrough subscriptions."""
        found: dict[tuple[TopicName, str], PassedThrough] = {}
        for one in self._broker.passthrough.passed_through:
            found[one.topic, one.subscription] = one
            if slices.add():
                await slices.pause()
        return found

    async def _topic(
        self,
        topic: TopicName,
        served: ServedTopic | None,
        relayed: Iterable[ClientConsumer],
        claims: set[ClaimKey],
        passing: dict[tuple[TopicName, str], str],
        slices: Slices,
    ) -> list[str]:
        """Return the parts of the text of a topic."""
        elsewhere: dict[str, list[ClientConsumer]] = {}
        for consumer in relayed:
            elsewhere.setdefault(consumer.info.name, []).append(consumer)
            if slices.add():
                await slices.pause()
        here = {} if served is None else dict(served.subscriptions)
        now = time.monotonic()
        sums: dict[str, float] = dict.fromkeys(_SUMS, 0)
        parts: list[str] = []
        for name in [*here, *(name for name in elsewhere if name not in here)]:
            others = elsewhere.get(name, [])
            if name in here:
                entry, consumers = self._served(topic, here[name], (topic, name) in claims, now)
            else:
                entry, consumers = _unserved(others[0]), []
            texts: list[str] = []
            for consumer in [*consumers, *others]:
                document = self._consumer(consumer, now)
                texts.append(f"{', ' * bool(texts)}{json.dumps(document)}")
                if served_by := consumer.served_by:
                    for key in (*_SUMS, "unackedMessages"):
                        entry[key] += document[key]
                    if served_by == OWNER:
                        nothing = "" if consumer.bound else "no binding names it"
                        entry["passedThrough"] = passing.get((topic, name), nothing)
                if slices.add(STEPS_PER_CONSUMER):
                    await slices.pause()
            for key in _SUMS:
                sums[key] += entry[key]
            parts.append(f'{", " * bool(parts)}{json.dumps(name)}: {json.dumps(entry)[:-1]}, "consumers": [')
            parts += texts
            parts.append("]}")
            if slices.add(STEPS_PER_SUBSCRIPTION + (here[name].backlog_steps if name in here else 0)):
                await slices.pause()
        limit = None if served is None else served.log.limit
        head: dict[str, Any] = {**sums, "lastReadable": None if limit is None else str(limit)}
        if served is not None and served.tail is not None:
            head["tail"] = {
                "source": "owner" if served.tail.pushed else "bookies",
                "changes": served.tail.changes,
            }
        return [json.dumps(head)[:-1], ', "subscriptions": {', *parts, "}}"]

    def _served(
        self, topic: TopicName, subscription: Subscription, claimed: bool, now: float
    ) -> tuple[dict[str, Any], list[ClientConsumer]]:
        """Return the figures of a subscription of this broker, and its consumers."""
        subscription.flush_accounting()
        counters, consumers = subscription.counters, subscription.consumers
        rate = self._rates.of((str(topic), subscription.name), counters.messages, counters.bytes, now)
        entry = {
            "msgRateOut": rate.messages,
            "msgThroughputOut": rate.bytes,
            "msgOutCounter": counters.messages,
            "bytesOutCounter": counters.bytes,
            "msgBacklog": subscription.backlog,
            "unackedMessages": sum(consumer.dispatch_state.unacked for consumer in consumers),
            "type": CommandSubscribe.SubType.Name(subscription.kind),
            "markDeletePosition": str(subscription.mark_delete),
            "claimed": claimed,
        }
        if isinstance(subscription, SplitSubscription):
            runner = subscription.runner
            entry["split"] = {
                "state": runner.state,
                "coordinator": runner.coordinator,
                "members": sorted(runner.members),
            }
        return entry, [one for one in consumers if isinstance(one, ClientConsumer) and not one.acks_only]

    def _consumer(self, consumer: ClientConsumer, now: float) -> dict[str, Any]:
        info, connection, figures = consumer.info, consumer.connection, consumer.figures()
        # A key of names: the consumer itself would stay in memory with its connection.
        key = (str(consumer.topic), info.name, connection.peer, str(consumer.consumer_id))
        rate = self._rates.of(key, figures.messages, figures.bytes, now)
        return {
            "msgRateOut": rate.messages,
            "msgThroughputOut": rate.bytes,
            "msgOutCounter": figures.messages,
            "bytesOutCounter": figures.bytes,
            "consumerName": consumer.consumer_name,
            "availablePermits": figures.permits,
            "unackedMessages": figures.unacked,
            "blockedConsumerOnUnackedMsgs": figures.blocked,
            "address": connection.peer,
            "clientVersion": connection.client_version,
            "metadata": {item.key: item.value for item in consumer.subscribe_command.metadata},
        }


def _unserved(consumer: ClientConsumer) -> dict[str, Any]:
    """Return the figures of a subscription that another broker serves, which has its backlog and cursor.

    Args:
        consumer: its first consumer.
    """
    return dict.fromkeys(_SUMS, 0) | {
        "type": CommandSubscribe.SubType.Name(consumer.info.kind),
        "unackedMessages": 0,
        "servedBy": consumer.served_by,
    }


async def _joined(items: Iterable[dict[str, Any]], slices: Slices) -> AsyncIterator[str]:
    """Yield the texts of JSON objects, with commas between them."""
    for number, item in enumerate(items):
        yield f"{', ' * bool(number)}{json.dumps(item)}"
        if slices.add(STEPS_PER_SUBSCRIPTION):
            await slices.pause()


async def _encoded(parts: list[str], slices: Slices) -> bytes:
    """Join parts of a text."""
    found = bytearray()
    for part in parts:
        found += part.encode()
        if slices.add():
            await slices.pause()
    return bytes(found)
