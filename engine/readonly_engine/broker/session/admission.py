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
from readonly_engine.broker.session.consumer import Consumer
from readonly_engine.broker.session.exclusives import subscribe_at_owner
from readonly_engine.broker.session.lookup import reject_unbound
from readonly_engine.broker.session.relay_marks import marked_subscribe, relayed_by
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.clock import lease_time
from readonly_engine.config.listeners import Urls
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.session.client_link import ClientLink
    from readonly_engine.broker.session.services import Services
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

CLAIMED_TYPES = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
"""Subscription types that one broker of the pool must dispatch. For the others the owner selects the consumer."""

_OF_EXISTING = frozenset({LocalRequest.EXPORT, LocalRequest.EXISTING, LocalRequest.FORCE})
"""Requests about local subscriptions that exist."""


async def admit(client: ClientLink, topic: TopicName, subscribe: CommandSubscribe) -> tuple[Consumer, BaseCommand]:
    """Create a consumer.

    Returns:
        The consumer, and the answer to its client.

    Raises:
        RelayError: the consumer is refused.
        MetadataError: the topic's metadata cannot be read.
    """
    services = client.services
    reject_unbound(services, topic)
    refusal = services.limits.subscribe(topic, subscribe.subscription)
    if refusal:
        raise OwnerRefusedError(ServerError.ConsumerBusy, refusal)
    claim: ClaimHandle | None = None
    consumer: Consumer | None = None
    admitted = False
    try:
        from_peer = relayed_by(subscribe)
        # An unbound topic comes from a lookup before a change of bindings, or because the pool relays unbound topics. An
        # unbound subscription of a bound topic comes because a lookup does not name the subscription.
        bound = services.bindings.serves(topic, subscribe.subscription)
        kept_here = _kept_here(services, topic, subscribe)
        request = request_of(subscribe)
        if request is LocalRequest.CHECK:
            await services.local_namesakes.answer(topic, client.identity, subscribe)
        # Where the owner is the keeper now, the local cursors from before can still be exported or deleted.
        moves = subscribe.durable and request in _OF_EXISTING
        local = kept_here or (moves and await services.local_namesakes.exist(topic))
        if not local:
            check_not_local(subscribe)
        key = await _claim_key(services, topic, subscribe, local=local) if bound or local else None
        peer = await services.local_cursors.place(key) if local and key is not None and from_peer is None else ""
        if key is not None and not peer:
            claim = await services.claim_store.acquire(key)
            peer = claim.url
            if peer and from_peer is not None:
                raise OwnerUnavailableError(f"{from_peer} takes this broker for the one that serves the subscription")
        partition = await services.local_cursors.open(key) if local and key is not None and not peer else None
        pass_through = bool(peer) or not (bound or local)
        if kept_here and not peer:
            await _check_local(services, topic, subscribe)
        elif not local:
            if subscribe.durable and not peer:
                await services.local_namesakes.check(topic, client.identity, subscribe)
            if not pass_through:
                pass_through = await services.passthrough.admit(topic, subscribe)
        peer_url = ""
        if peer:
            member = services.pool.members.get(peer)
            peer_url = services.owners.peer_url(peer, "" if member is None else member.tls_url)
        consumer = Consumer(
            client,
            topic,
            marked_subscribe(
                subscribe,
                relayed_by=services.pool.url if peer else "",
                # The others are direct consumers on the owner, as before; a local cursor that moves is not seen there.
                pool=services.passthrough.pool if bound and not peer and (kept_here or not local) else "",
            ),
            pass_through=pass_through,
            peer=peer,
            peer_url=peer_url,
            claim=claim,
            bound=bound,
            partition=partition,
        )
        changes_only = partition is not None and request is LocalRequest.FORCE
        sent = lease_time()
        answer = await subscribe_at_owner(consumer, services.exclusives)
        if from_peer is not None:
            consumer.relayed_at = time.monotonic()
        if changes_only:
            consumer.exclusive = False  # it must neither get messages nor replace the consumer that does
        elif not pass_through:
            subscription = await services.topics.join(topic, consumer, partial(_check_claim, services, claim))
            consumer.on_joined(subscription, sent)
        elif bound and not peer:
            services.passthrough.add(consumer)
        if consumer.unregistered:
            raise OwnerUnavailableError(f"the consumer of {topic} was closed during its creation; look it up again")
        if bound != services.bindings.serves(topic, subscribe.subscription) or kept_here != _kept_here(
            services, topic, subscribe
        ):
            # The broker closes only consumers of connections when bindings change, and this one is not listed there yet.
            raise OwnerUnavailableError(f"the bindings of {topic} have changed; look it up again")
        if claim is not None and from_peer is None:
            services.pending_redirects.arrived(ClaimKey(topic, subscribe.subscription))
        if consumer.exclusive:
            services.exclusives.add(consumer)
        admitted = True
        return consumer, answer
    finally:
        if not admitted:
            if consumer is not None:
                consumer.unregister()
                services.spawn(consumer.close())
            else:
                services.limits.leave(topic, subscribe.subscription)
                if claim is not None:
                    services.claim_store.release(claim)


def _kept_here(services: Services, topic: TopicName, subscribe: CommandSubscribe) -> bool:
    """Return whether the pool keeps a subscription's cursor.

    A non-durable subscription has no cursor to keep: the owner admits it, and no redirect makes a Reader begin again.
    """
    name = subscribe.subscription
    return subscribe.durable and services.bindings.serves(topic, name) and services.keeps_cursors(topic, name)


async def _check_local(services: Services, topic: TopicName, subscribe: CommandSubscribe) -> None:
    """Check that a subscription's cursor may be kept here.

    Raises:
        RelayError: only the owner can serve it, or it is not known whether.
    """
    refusal = await services.passthrough.refusal(topic, subscribe)
    if refusal:
        raise OwnerRefusedError(
            ServerError.NotAllowedError,
            f"subscription {subscribe.subscription} of {topic} needs the owner's cursor ({refusal}): bind it with cursors: Owner",
        )


async def _claim_key(
    services: Services, topic: TopicName, subscribe: CommandSubscribe, *, local: bool
) -> ClaimKey | None:
    """Return the claim that a broker needs to serve a subscription; None if it needs none."""
    if local:
        return await services.local_cursors.key_of(topic, subscribe.subscription)
    return ClaimKey(topic, subscribe.subscription) if subscribe.sub_type in CLAIMED_TYPES else None


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
