"""A consumer that is cheaper at its topic's owner, by `placement: WhenCheaper`: its client is redirected there."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, ClassVar

from readonly_engine.broker.consumer.redirected import RedirectedConsumer, client_key
from readonly_engine.broker.passthrough.policy import CACHE_TTL_S
from readonly_engine.broker.passthrough.pool_metadata import POOL_KEY
from readonly_engine.broker.pool.bindings import Placing
from readonly_engine.broker.pool.cheaper import Consumers, belongs_at_owner, count_consumers
from readonly_engine.broker.pool.client_versions import supports_assigned_broker
from readonly_engine.broker.pool.redirects import TO_OWNER
from readonly_engine.broker.tail.budget import SUBSCRIPTION_PREFIX
from readonly_engine.config.listeners import DEFAULT, Urls
from readonly_engine.owner.errors import RelayError
from readonly_engine.wire.pulsar_pb2 import CommandLookupTopic

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.consumer.services import Services
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)


async def owner_consumers(services: Services, topic: TopicName, subscription: str, max_age_s: float) -> Consumers:
    """Return the numbers of a topic's consumers by its owner, which is asked at most once within so many seconds.

    Raises:
        OwnerUnavailableError: the owner does not answer.
    """
    stats = await services.passthrough.statistics(topic, max_age_s)
    return count_consumers(stats, subscription, services.passthrough.pool, POOL_KEY, SUBSCRIPTION_PREFIX)


async def cheaper_owner(client: ClientLink, placement: Placement, subscribe: CommandSubscribe) -> Urls | None:
    """Return the owner's URLs for a new consumer that belongs there by its binding; None if the pool serves it.

    A Reader stays: with each redirect it begins again where its client says, which may be the end. So does a client that does
    not follow redirects or has come back from one, a subscription whose cursor the pool keeps, and everything while the owner
    does not answer.

    Raises:
        RelayError: the pool has a local subscription of that name, so that the owner must not create one.
        MetadataError: whether it has one is not known.
    """
    services, topic, name = client.services, placement.topic, placement.info.name
    if not placement.bound or placement.local or not placement.info.durable or placement.request is not None:
        return None
    if services.bindings.placement_of(topic, name) is not Placing.WHEN_CHEAPER:
        return None
    now = time.monotonic()
    if not services.redirects.would_allow(client.client_version, client_key(client, subscribe), now):
        return None
    try:
        consumers = await owner_consumers(services, topic, name, CACHE_TTL_S)
        if not belongs_at_owner(consumers, services.recent_redirects.names(topic, now), name):
            return None
        services.recent_redirects.add(topic, name, now)
        urls = await owner_urls(client, topic)
    except RelayError as error:
        log.info("the pool serves a consumer, its owner does not answer: topic=%s error=%s", topic, error)
        return None
    if not urls.serve(tls=client.tls):
        return None
    await services.local_names.check(topic, client.identity, subscribe)
    return urls


async def owner_urls(client: ClientLink, topic: TopicName) -> Urls:
    """Return the URLs of a topic's owner for the listener of a client.

    Raises:
        RelayError: the owner does not answer, or refuses the client.
    """
    lookup = CommandLookupTopic(topic=str(topic), authoritative=False)
    if client.listener != DEFAULT:
        lookup.advertised_listener_name = client.listener
    answer = (await client.services.owners.look_up(lookup, client.identity)).lookup_topic_response
    return Urls(answer.broker_service_url, answer.broker_service_url_tls)


def may_be_placed(consumer: ClientConsumer) -> bool:
    """Return whether a consumer that this broker serves could be at its owner."""
    client = consumer.connection
    return (
        consumer.bound
        and consumer.info.durable
        and consumer.movable
        and client.services.bindings.placement_of(consumer.topic, consumer.info.name) is Placing.WHEN_CHEAPER
        and supports_assigned_broker(client.client_version)
    )


class OwnerPlacedConsumer(RedirectedConsumer):
    """Subscribes at the owner, which refuses it or creates its subscription, and then redirects its client there.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the client's SUBSCRIBE, without the mark of a pool: the owner serves it.
        urls: the owner's URLs.
    """

    to: ClassVar[str] = TO_OWNER

    __slots__ = ("_urls",)

    def __init__(self, connection: ClientLink, placement: Placement, subscribe: CommandSubscribe, urls: Urls) -> None:
        super().__init__(connection, placement, subscribe, None)
        self._urls = urls

    def urls(self) -> Urls:
        """Return the owner's URLs."""
        return self._urls
