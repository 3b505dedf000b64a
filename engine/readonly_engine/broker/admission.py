"""How a consumer gets in: which broker of the pool serves it, whether it passes through, and what its owner says."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.broker.claims import ClaimKey
from readonly_engine.broker.consumer import Consumer
from readonly_engine.broker.exclusives import attach
from readonly_engine.broker.lookup import turn_away_unbound
from readonly_engine.broker.pause import Pause
from readonly_engine.clock import lease_time
from readonly_engine.config.listeners import Urls
from readonly_engine.relay.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.broker import Broker
    from readonly_engine.broker.claiming import Hold
    from readonly_engine.broker.connection import ClientConnection
    from readonly_engine.broker.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

RELAYED_BY = "pulsar-readonly.relayed-by"
"""Metadata that a broker of the pool adds to a consumer that it brings to another one, which never brings it any further.

The owner does not see it. Any client can send it. It needs no proof, since a lie harms only the liar:

- A marked consumer is refused where another broker serves its subscription.
- When one leaves within 5 s, the broker lets an UNSUBSCRIBE wait for its return, for 5 s at most. That counts only if the owner
  has admitted the consumer. Such a client may block every UNSUBSCRIBE anyway, as at the owner: by staying.
"""

CLAIMED_TYPES = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
"""Subscriptions whose messages one broker must hand out; for the others the owner says who gets them."""


async def admit(
    client: ClientConnection, topic: TopicName, subscribe: CommandSubscribe
) -> tuple[Consumer, BaseCommand]:
    """Create a consumer.

    Returns:
        The consumer, and what its client is answered.

    Raises:
        RelayError: the client is refused.
        MetadataError: the topic cannot be read.
    """
    broker = client.broker
    turn_away_unbound(broker, topic)
    refusal = broker.limits.subscribe(topic, subscribe.subscription)
    if refusal:
        raise OwnerRefusedError(ServerError.ConsumerBusy, refusal)
    hold: Hold | None = None
    consumer: Consumer | None = None
    admitted = False
    try:
        from_peer = _take_mark(subscribe)
        # A consumer of another topic comes by a lookup from before, or because unbound topics are relayed; that of a
        # subscription that no binding names comes because a lookup does not say which subscription it is for.
        bound = broker.bindings.serves(topic, subscribe.subscription)
        if bound and subscribe.sub_type in CLAIMED_TYPES:
            hold = await broker.claiming.hold(ClaimKey(topic, subscribe.subscription))
            if hold.url and from_peer is not None:
                raise OwnerUnavailableError(f"{from_peer} takes this broker for the one that serves the subscription")
        via = hold.url if hold is not None else ""
        if via:
            subscribe.metadata.add(key=RELAYED_BY, value=broker.fleet.url)
        pass_through = not bound or bool(via) or await broker.topics.passing.admit(topic, subscribe)
        relay_url = ""
        if via:
            member = broker.fleet.members.get(via)
            relay_url = broker.owners.peer_url(via, "" if member is None else member.tls_url)
        consumer = Consumer(
            client, topic, subscribe, pass_through=pass_through, via=via, relay_url=relay_url, hold=hold, bound=bound
        )
        sent = lease_time()
        answer = await attach(consumer)
        if from_peer is not None:
            consumer.brought_at = time.monotonic()
        if not pass_through:
            subscription = await broker.topics.join(topic, consumer, partial(_check_claim, broker, hold))
            consumer.joined(subscription, sent)
        elif bound and not via:
            broker.topics.passing.enter(consumer)
        if consumer.left:
            raise OwnerUnavailableError(f"{topic} is on its way to another broker; look it up again")
        if bound != broker.bindings.serves(topic, subscribe.subscription):
            # Those that are here already are sent away by the broker when the bindings change.
            raise OwnerUnavailableError(f"what binds {topic} has changed meanwhile; look it up again")
        if hold is not None and from_peer is None:
            broker.arrivals.came(hold.key)
        if consumer.exclusive:
            broker.exclusives.came(consumer)
        admitted = True
        return consumer, answer
    finally:
        if not admitted:
            if consumer is not None:
                consumer.leave()
                broker.spawn(consumer.close())
            else:
                broker.limits.leave(topic, subscribe.subscription)
                if hold is not None:
                    broker.claiming.leave(hold)


def _check_claim(broker: Broker, hold: Hold | None, subscription: Subscription) -> None:
    """Let nobody be served under a claim that is not this broker's any more, or was another's since the cursor was read."""
    if hold is None:
        return
    if not broker.claiming.valid(hold):
        raise OwnerUnavailableError(
            f"subscription {hold.key.subscription} of {hold.key.topic} may have been served by another broker; try again"
        )
    if broker.claiming.resting:
        subscription.pause(Pause.LEASE)


def move_on(consumer: Consumer) -> None:
    """Send the client of a consumer that another broker serves there, if it goes where it is told; else it stays, and is relayed.

    It was subscribed through this broker first, so that it has heard from the owner that it may.
    """
    client, broker = consumer.connection, consumer.connection.broker
    member = broker.fleet.members.get(consumer.via)
    urls = Urls() if member is None else member.reached(client.listener)
    if not urls.serve(tls=client.tls):
        return
    who = (client.address, str(consumer.topic), consumer.subscribe.subscription, consumer.subscribe.consumer_name)
    if broker.moves.may(client.client_version, who, time.monotonic()):
        broker.spawn(consumer.move(urls.url, urls.tls_url))


def _take_mark(subscribe: CommandSubscribe) -> str | None:
    """Take all marks off, and return the broker of the pool that has brought the consumer here; None for none."""
    marks = [item.value for item in subscribe.metadata if item.key == RELAYED_BY]
    if not marks:
        return None
    others = [item for item in subscribe.metadata if item.key != RELAYED_BY]
    del subscribe.metadata[:]
    subscribe.metadata.extend(others)
    return marks[-1]
