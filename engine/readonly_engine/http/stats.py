"""Statistics of a broker in the form of Pulsar's topic stats, with keys of our own, such as servedBy and lastReadable."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from readonly_engine.broker.session.consumer import Consumer
from readonly_engine.broker.session.rates import Rates
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.broker.subscription.served_topic import ServedTopic
    from readonly_engine.metadata.topic_name import TopicName

_SUMS = ("msgRateOut", "msgThroughputOut", "msgOutCounter", "bytesOutCounter")


class Statistics:
    """Statistics of one broker.

    Args:
        broker: the broker.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rates: Rates[object] = Rates()
        self._passing: dict[tuple[TopicName, str], str] = {}

    def document(self, only: str | None = None) -> dict[str, Any]:
        """Return the statistics of all topics with consumers on this broker, of the pool, and of this broker's claims.

        Args:
            only: full name of the only topic to return; None for all.
        """
        broker, now = self._broker, time.monotonic()
        relayed: dict[TopicName, list[Consumer]] = {}
        counted: set[object] = set()
        for consumer in broker.consumers:
            if consumer.flow_window is not None:
                relayed.setdefault(consumer.topic, []).append(consumer)
        passing = broker.passthrough.passed_through
        self._passing = {(one.topic, one.subscription): one.text for one in passing}
        served = dict(broker.topics.all)
        topics = {
            str(topic): self._topic(topic, served.get(topic), relayed.get(topic, ()), counted, now)
            for topic in served.keys() | relayed.keys()
            if only in {None, str(topic)}
        }
        if only is None:
            self._rates.keep(counted)
        return {
            "topics": topics,
            "brokers": sorted(broker.pool.members),
            "url": broker.pool.url,
            "locality": broker.pool.locality,
            "connections": len(broker.connections),
            "consumers": broker.limits.consumers,
            "bufferedBytes": sum(connection.buffered for connection in broker.connections),
            "producers": sum(len(connection.producers) for connection in broker.connections),
            "claims": [{"topic": str(key.topic), "subscription": key.subscription} for key in broker.claim_store.held],
            "localCursors": [
                {
                    "topic": str(key.topic),
                    "subscriptions": len(partition.store),
                    "active": len(partition.subscriptions),
                    "unstored": partition.store.unstored,
                }
                for key, partition in broker.local_cursors.held.items()
            ],
            "passedThrough": [
                found._asdict() | {"topic": str(found.topic)} for found in broker.passthrough.passed_through
            ],
        }

    def _topic(
        self,
        topic: TopicName,
        served: ServedTopic | None,
        relayed: Iterable[Consumer],
        counted: set[object],
        now: float,
    ) -> dict[str, Any]:
        subscriptions: dict[str, dict[str, Any]] = {}
        if served is not None:
            claims = set(self._broker.claim_store.held)
            for name, subscription in served.subscriptions.items():
                subscription.flush_accounting()
                counters = subscription.counters
                counted.add((topic, name))
                rate = self._rates.of((topic, name), counters.messages, counters.bytes, now)
                subscriptions[name] = {
                    "msgRateOut": rate.messages,
                    "msgThroughputOut": rate.bytes,
                    "msgOutCounter": counters.messages,
                    "bytesOutCounter": counters.bytes,
                    "msgBacklog": subscription.backlog,
                    "unackedMessages": sum(consumer.dispatch_state.unacked for consumer in subscription.consumers),
                    "type": CommandSubscribe.SubType.Name(subscription.kind),
                    "consumers": [
                        self._consumer(consumer, counted, now)
                        for consumer in subscription.consumers
                        if isinstance(consumer, Consumer)
                    ],
                    "markDeletePosition": str(subscription.mark_delete),
                    "claimed": (topic, name) in claims,
                }
        for consumer in relayed:
            self._add_relayed(subscriptions, consumer, counted, now)
        stats: dict[str, Any] = {key: sum(one[key] for one in subscriptions.values()) for key in _SUMS}
        limit = None if served is None else served.log.limit
        stats["lastReadable"] = None if limit is None else str(limit)
        if served is not None and served.tail is not None:
            stats["tail"] = {
                "source": "owner" if served.tail.pushed else "bookies",
                "changes": served.tail.changes,
            }
        stats["subscriptions"] = subscriptions
        return stats

    def _add_relayed(
        self, subscriptions: dict[str, dict[str, Any]], consumer: Consumer, counted: set[object], now: float
    ) -> None:
        """Add a consumer that another broker serves, which has its backlog and cursor."""
        subscribe = consumer.subscribe_command
        name = subscribe.subscription
        entry = subscriptions.setdefault(
            name,
            dict.fromkeys(_SUMS, 0)
            | {
                "type": CommandSubscribe.SubType.Name(subscribe.sub_type),
                "unackedMessages": 0,
                "consumers": [],
                "servedBy": consumer.peer or "owner",
            },
        )
        if not consumer.peer:
            nothing = "" if consumer.bound else "no binding names it"
            entry["passedThrough"] = self._passing.get((consumer.topic, name), nothing)
        document = self._consumer(consumer, counted, now)
        entry["consumers"].append(document)
        for key in (*_SUMS, "unackedMessages"):
            entry[key] += document[key]

    def _consumer(self, consumer: Consumer, counted: set[object], now: float) -> dict[str, Any]:
        counted.add(consumer)
        rate = self._rates.of(consumer, consumer.messages, consumer.bytes, now)
        window, subscribe = consumer.flow_window, consumer.subscribe_command
        return {
            "msgRateOut": rate.messages,
            "msgThroughputOut": rate.bytes,
            "msgOutCounter": consumer.messages,
            "bytesOutCounter": consumer.bytes,
            "consumerName": subscribe.consumer_name,
            "availablePermits": consumer.dispatch_state.permits if window is None else window.permits,
            "unackedMessages": consumer.dispatch_state.unacked if window is None else len(window.pending),
            "blockedConsumerOnUnackedMsgs": consumer.dispatch_state.blocked,
            "address": consumer.connection.peer,
            "clientVersion": consumer.connection.client_version,
            "metadata": {item.key: item.value for item in subscribe.metadata},
        }
