"""Admission of a consumer: limits, claim, passthrough, and the SUBSCRIBE to the owner or to another broker of the pool."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.broker.cursors.local_requests import LocalRequest, check_not_local, request_of
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.client_versions import supports_assigned_broker
from readonly_engine.broker.pool.redirects import PendingRedirect
from readonly_engine.broker.session.admission_lease import AdmissionLease
from readonly_engine.broker.session.consumer import Consumer
from readonly_engine.broker.session.exclusives import subscribe_at_owner
from readonly_engine.broker.session.lookup import reject_unbound
from readonly_engine.broker.session.relay_marks import marked_subscribe, relayed_by
from readonly_engine.broker.session.route import (
    CursorPlace,
    Local,
    Passthrough,
    Placement,
    Relay,
    Served,
    choose_route,
    may_be_moved,
)
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.clock import lease_time
from readonly_engine.config.listeners import Urls
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.wire.subscribe_info import SubscribeInfo

if TYPE_CHECKING:
    from collections.abc import Hashable

    from readonly_engine.broker.cursors.held_partition import HeldPartition
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.session.client_link import ClientLink
    from readonly_engine.broker.session.route import Route
    from readonly_engine.broker.session.services import Services
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe

log = logging.getLogger(__name__)


async def admit(client: ClientLink, topic: TopicName, subscribe: CommandSubscribe) -> tuple[Consumer, BaseCommand]:
    """Create a consumer.

    Returns:
        The consumer, and the answer to its client.

    Raises:
        RelayError: the consumer is refused.
        MetadataError: the topic's metadata cannot be read.
    """
    services, info = client.services, SubscribeInfo.of(subscribe)
    reject_unbound(services, topic)
    lease = AdmissionLease(services, topic, info.name)
    consumer, admitted = None, False
    try:
        placement, from_peer = await _place(client, topic, subscribe, info), relayed_by(subscribe)
        key, peer = await _claim_key(services, placement), ""
        if placement.local and key is not None and from_peer is None:
            peer = await services.local_cursors.place(key)
        if key is not None and not peer:
            peer = await lease.acquire(key)
        partition = await services.local_cursors.open(key) if placement.local and key is not None and not peer else None
        needs_owner = "" if peer else await _needs_owner(client, placement, subscribe)
        route = choose_route(placement, peer, from_peer, needs_owner)
        consumer = _make_consumer(client, placement, subscribe, lease, route, partition)
        answer = await _begin(consumer, route, relayed=from_peer is not None)
        _check_unchanged(services, consumer, placement)
        if from_peer is None:
            lease.on_arrived()
        if consumer.exclusive:
            services.exclusives.add(consumer)
        admitted = True
        return consumer, answer
    finally:
        lease.end_admission(consumer, admitted=admitted)


async def _place(client: ClientLink, topic: TopicName, subscribe: CommandSubscribe, info: SubscribeInfo) -> Placement:
    """Return what bindings and cursors say about a consumer.

    Raises:
        RelayError: the consumer has a request about a local subscription, which is answered or refused by that.
        MetadataError: the metadata store does not answer.
    """
    services, request = client.services, request_of(subscribe)
    bound, kept = services.bindings.serves(topic, info.name), _kept_by_pool(services, topic, info)
    if request is LocalRequest.CHECK:
        await services.local_namesakes.answer(topic, client.identity, subscribe)
    if kept:
        return Placement(topic, info, bound, CursorPlace.POOL, request)
    if may_be_moved(request, durable=info.durable) and await services.local_namesakes.exist(topic):
        return Placement(topic, info, bound, CursorPlace.POOL_BEFORE, request)
    check_not_local(subscribe)
    return Placement(topic, info, bound, CursorPlace.OWNER, request)


def _kept_by_pool(services: Services, topic: TopicName, info: SubscribeInfo) -> bool:
    """Return whether the pool keeps a subscription's cursor.

    A non-durable subscription has no cursor to keep: the owner admits it, and no redirect makes a Reader begin again.
    """
    return info.durable and services.bindings.serves(topic, info.name) and services.keeps_cursors(topic, info.name)


async def _claim_key(services: Services, placement: Placement) -> ClaimKey | None:
    """Return the claim that a broker needs to serve a consumer; None if it needs none."""
    if not placement.needs_claim:
        return None
    if placement.local:
        return await services.local_cursors.key_of(placement.topic, placement.info.name)
    return ClaimKey(placement.topic, placement.info.name)


async def _needs_owner(client: ClientLink, placement: Placement, subscribe: CommandSubscribe) -> str:
    """Return why only the owner can serve a subscription that no other broker of the pool serves; empty if this one can.

    Raises:
        RelayError: that is not known, or the subscription must not be created on the owner.
        MetadataError: the metadata store does not answer.
    """
    services, topic = client.services, placement.topic
    if placement.cursor is CursorPlace.POOL:
        return await services.passthrough.refusal(topic, subscribe)
    if placement.local:
        return ""
    if placement.info.durable:
        await services.local_namesakes.check(topic, client.identity, subscribe)
    return "a reason of the policy" if placement.bound and await services.passthrough.admit(topic, subscribe) else ""


def _make_consumer(
    client: ClientLink,
    placement: Placement,
    subscribe: CommandSubscribe,
    lease: AdmissionLease,
    route: Route,
    partition: HeldPartition | None,
) -> Consumer:
    services, peer, peer_url = client.services, "", ""
    if isinstance(route, Relay):
        peer, member = route.peer, services.pool.members.get(route.peer)
        peer_url = services.owners.peer_url(peer, "" if member is None else member.tls_url)
    return Consumer(
        client,
        placement.topic,
        marked_subscribe(
            subscribe,
            relayed_by=services.pool.url if peer else "",
            pool="" if peer or not placement.of_pool else services.passthrough.pool,
        ),
        lease,
        pass_through=isinstance(route, Relay | Passthrough),
        peer=peer,
        peer_url=peer_url,
        bound=placement.bound,
        partition=partition,
    )


async def _begin(consumer: Consumer, route: Route, *, relayed: bool) -> BaseCommand:
    """Subscribe where the cursor is, and begin the consumer's way; return the answer to its client."""
    services, sent = consumer.connection.services, lease_time()
    answer = await subscribe_at_owner(consumer, services.exclusives)
    if relayed:
        consumer.admission.on_relayed()
    match route:
        case Local(changes_only=True):
            consumer.exclusive = False  # it must neither get messages nor replace the consumer that does
        case Served() | Local():
            subscription = await services.topics.join(
                consumer.topic, consumer, partial(_check_claim, services, consumer.claim)
            )
            consumer.on_joined(subscription, sent)
        case Passthrough(bound=True):
            services.passthrough.add(consumer)
    return answer


def _check_unchanged(services: Services, consumer: Consumer, placement: Placement) -> None:
    """Check that a new consumer was not closed, and that the bindings still name its place.

    The broker closes only consumers of connections when bindings change, and this one is not listed there yet.

    Raises:
        OwnerUnavailableError: it was closed, or they name another place.
    """
    topic, info = placement.topic, placement.info
    if consumer.unregistered:
        raise OwnerUnavailableError(f"the consumer of {topic} was closed during its creation; look it up again")
    kept = placement.cursor is CursorPlace.POOL
    if placement.bound != services.bindings.serves(topic, info.name) or kept != _kept_by_pool(services, topic, info):
        raise OwnerUnavailableError(f"the bindings of {topic} have changed; look it up again")


def _check_claim(services: Services, claim: ClaimHandle | None, subscription: Subscription) -> None:
    """Check the claim after the cursor was read, and pause the subscription while the metadata store does not confirm claims.

    Raises:
        OwnerUnavailableError: the claim was lost, or another broker may have held it since the cursor was read.
    """
    if claim is None:
        return
    if not services.claim_store.is_valid(claim):
        raise OwnerUnavailableError(
            f"subscription {claim.key.subscription} of {claim.key.topic} may have been served by another broker; try again"
        )
    if services.claim_store.suspended:
        subscription.pause(Pause.LEASE)


def redirect_if_supported(consumer: Consumer) -> None:
    """Redirect a consumer to the broker of the pool that serves it, if its client supports that; otherwise keep relaying it.

    The consumer was subscribed through this broker before, so the owner has authorized it.
    """
    if request_of(consumer.subscribe_command) is not None:
        return  # it sends one more command, which could arrive before the client has followed
    client, services = consumer.connection, consumer.connection.services
    member = services.pool.members.get(consumer.peer)
    urls = Urls() if member is None else member.urls_for(client.listener)
    if not urls.serve(tls=client.tls):
        return
    client_key = (
        client.address,
        str(consumer.topic),
        consumer.info.name,
        consumer.info.consumer_name,
    )
    if supports_assigned_broker(client.client_version):
        consumer.pending_redirect = pending = PendingRedirect(time.monotonic())
        services.spawn(_redirect(consumer, pending, client_key, urls))


async def _redirect(consumer: Consumer, pending: PendingRedirect, client_key: Hashable, urls: Urls) -> None:
    """Redirect a consumer as soon as it may be, or relay its messages from then on."""
    redirects, version = consumer.connection.services.redirects, consumer.connection.client_version
    while not consumer.unregistered:
        now = time.monotonic()
        wait = pending.wait(now)
        if wait is not None and wait > 0:
            await asyncio.sleep(wait)
        elif wait is not None and redirects.allow(version, client_key, now):
            await consumer.redirect(urls.url, urls.tls_url)
            return
        else:
            consumer.relay_messages()
            return
