"""Admission of a consumer: limits, claim, passthrough, and the SUBSCRIBE to the owner or to another broker of the pool."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.consumer.exclusives import subscribe_at_owner
from readonly_engine.broker.consumer.local import LocallyKeptConsumer
from readonly_engine.broker.consumer.owner_placed import OwnerPlacedConsumer, cheaper_owner
from readonly_engine.broker.consumer.passed_through import PassedThroughConsumer
from readonly_engine.broker.consumer.proxied import ProxiedConsumer
from readonly_engine.broker.consumer.relay_marks import mark_acks, marked_subscribe, only_acks, relayed_by, split_member
from readonly_engine.broker.consumer.route import (
    CLAIMED_TYPES,
    AtOwner,
    CursorPlace,
    Leased,
    Local,
    Passthrough,
    Placement,
    Relay,
    choose_route,
    may_be_moved,
)
from readonly_engine.broker.consumer.served import OwnerKeptConsumer
from readonly_engine.broker.consumer.split import IndivisibleError, MemberConsumer, SplitConsumer, check_member
from readonly_engine.broker.consumer.split_local import AckingConsumer, HeldSplitConsumer, LeasedConsumer
from readonly_engine.broker.cursors.local_requests import LocalRequest, check_not_local, request_of
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.unbound import reject_unbound
from readonly_engine.broker.split.keys import why_indivisible
from readonly_engine.clock import lease_time
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe, CommandSuccess, ServerError
from readonly_engine.wire.subscribe_info import SubscribeInfo

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Route
    from readonly_engine.broker.consumer.services import Services
    from readonly_engine.broker.cursors.partition import CursorPartition
    from readonly_engine.broker.pool.bindings import Bindings
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.metadata.topic_name import TopicName

_JOINING: Final = frozenset({None, LocalRequest.EXISTING})
"""Requests of consumers that join a split subscription, instead of changing it beside its consumers."""


async def admit(
    client: ClientLink, topic: TopicName, subscribe: CommandSubscribe
) -> tuple[ClientConsumer, BaseCommand]:
    """Create a consumer.

    Returns:
        The consumer, and the answer to its client.

    Raises:
        RelayError: the consumer is refused.
        MetadataError: the topic's metadata cannot be read.
    """
    reject_unbound(client.services, topic)
    if (member := split_member(subscribe)) is not None:
        return await _admit_member(client, topic, subscribe, *member)
    try:
        return await _admit(client, topic, subscribe)
    except IndivisibleError:
        return await _admit(client, topic, subscribe)  # not split this time; some clients would not try again


async def _admit(
    client: ClientLink, topic: TopicName, subscribe: CommandSubscribe
) -> tuple[ClientConsumer, BaseCommand]:
    services, info = client.services, SubscribeInfo.of(subscribe)
    bindings = services.bindings
    if refusal := services.limits.subscribe(topic, info.name):
        raise OwnerRefusedError(ServerError.ConsumerBusy, refusal)
    peer, claim, partition, consumer, admitted = "", None, None, None, False
    try:
        placement, from_peer = await _place(client, topic, subscribe, info), relayed_by(subscribe)
        cheaper = None if from_peer is not None else await cheaper_owner(client, placement, subscribe)
        if only_acks(subscribe) and not (placement.split and placement.local):
            why = f"{services.pool.url} serves {info.name} of {topic} alone"
            raise OwnerRefusedError(ServerError.NotAllowedError, why)
        if placement.split and not placement.local and await _needs_owner(client, placement, subscribe):
            placement = placement._replace(split=False)  # the broker with the claim passes the subscription through
        if placement.bound and info.kind in CLAIMED_TYPES and placement.request in _JOINING:
            await services.splits.wait_ended(ClaimKey(topic, info.name), split=placement.split)
        if placement.needs_claim and cheaper is None:
            local = placement.local
            key = await services.local_cursors.key_of(topic, info.name) if local else ClaimKey(topic, info.name)
            if local and from_peer is None:
                peer = await services.local_cursors.place(key)
            if not peer:
                claim = await services.claim_store.acquire(key)
                peer = claim.url
            if local and not peer:
                partition = await services.local_cursors.open(key)
        needs_owner = "" if peer or cheaper else await _needs_owner(client, placement, subscribe)
        route = choose_route(placement, peer, from_peer, needs_owner, cheaper)
        consumer = make_consumer(client, placement, subscribe, claim, route, partition)
        answer = await _begin(consumer, relayed=from_peer is not None and not consumer.acks_only)
        _check_unchanged(services, consumer, placement, bindings)
        _register(services, consumer)
        admitted = True
        return consumer, answer
    finally:
        if not admitted:
            _give_back(services, topic, info.name, claim, consumer)


def _register(services: Services, consumer: ClientConsumer) -> None:
    """Count the consumer's client as one that has connected here, maybe after a redirect, and remember an exclusive consumer."""
    if consumer.claim is not None and consumer.relayed_at is None:
        services.pending_redirects.arrived(ClaimKey(consumer.topic, consumer.info.name))
    if consumer.exclusive:
        services.exclusives.add(consumer)


def _give_back(
    services: Services, topic: TopicName, name: str, claim: ClaimHandle | None, consumer: ClientConsumer | None
) -> None:
    """Give the place and the claim of a refused consumer back, after its close where there is one."""
    if consumer is not None:
        consumer.unregister()
        services.spawn(consumer.close())
        return
    services.limits.leave(topic, name)
    if claim is not None:
        services.claim_store.release(claim)


async def _admit_member(
    client: ClientLink, topic: TopicName, subscribe: CommandSubscribe, name: str, version: str
) -> tuple[ClientConsumer, BaseCommand]:
    """Connect a member of a split subscription to the coordinator here; as `admit`."""
    services, info = client.services, SubscribeInfo.of(subscribe)
    check_member(version, info.kind)
    runner = services.splits.coordinator(ClaimKey(topic, info.name), name, subscribe)
    if refusal := services.limits.subscribe(topic, info.name):
        raise OwnerUnavailableError(refusal)
    consumer = None
    admitted = False
    try:
        partition = None
        if runner.holds_cursor:
            key = await services.local_cursors.key_of(topic, info.name)
            if (partition := services.local_cursors.held.get(key)) is None:
                raise OwnerUnavailableError(f"the cursor of {info.name} moves to another broker; try again")
        placement = Placement(topic, info, False, CursorPlace.OWNER)
        consumer = MemberConsumer(client, placement, subscribe, name, partition)
        try:
            answer = await _begin(consumer, relayed=False)
        except OwnerRefusedError as error:
            if error.code != ServerError.ConsumerAssignError:
                raise
            # Authorized: a consumer of the member itself has the ranges of hashes that it names (STICKY).
            answer = BaseCommand(type=BaseCommand.SUCCESS, success=CommandSuccess(request_id=0))
        admitted = True
        return consumer, answer
    finally:
        if not admitted:
            _give_back(services, topic, info.name, None, consumer)


async def _place(client: ClientLink, topic: TopicName, subscribe: CommandSubscribe, info: SubscribeInfo) -> Placement:
    """Return what bindings and cursors say about a consumer.

    Raises:
        RelayError: the consumer has a request about a local subscription, which is answered or refused by that.
        MetadataError: the metadata store does not answer.
    """
    services, request = client.services, request_of(subscribe)
    if services.replay is not None:
        subscribe.read_compacted = False  # the compacted ledger is of the present
        return Placement(topic, info, True, CursorPlace.POOL)
    bound = services.bindings.serves(topic, info.name)
    kept = bound and _kept_by_pool(services, topic, info)
    if request is LocalRequest.CHECK:
        await services.local_names.answer(topic, client.identity, subscribe)
    if kept:
        splittable = info.kind == CommandSubscribe.Shared and request in _JOINING
        split = splittable and _splits(services, topic, subscribe, info)
        return Placement(topic, info, bound, CursorPlace.POOL, request, split)
    if may_be_moved(request, durable=info.durable) and await services.local_names.exist(topic):
        return Placement(topic, info, bound, CursorPlace.POOL_BEFORE, request)
    if request is not None:
        check_not_local(subscribe)
    split = bound and _splits(services, topic, subscribe, info)
    return Placement(topic, info, bound, CursorPlace.OWNER, request, split)


def _splits(services: Services, topic: TopicName, subscribe: CommandSubscribe, info: SubscribeInfo) -> bool:
    """Return whether every broker of the pool serves its own consumers of a bound subscription."""
    if not (info.kind in CLAIMED_TYPES and info.durable and services.splits_dispatch(topic, info.name)):
        return False
    key = ClaimKey(topic, info.name)
    if why := why_indivisible(subscribe):
        services.splits.end_split(key, why)
    return services.splits.allows(key)


def _kept_by_pool(services: Services, topic: TopicName, info: SubscribeInfo) -> bool:
    """Return whether the pool keeps the cursor of a bound subscription.

    A non-durable subscription has no cursor to keep: the owner admits it, and no redirect makes a Reader begin again.
    """
    return services.replay is not None or (info.durable and services.keeps_cursors(topic, info.name))


async def _needs_owner(client: ClientLink, placement: Placement, subscribe: CommandSubscribe) -> str:
    """Return why only the owner can serve a subscription that no other broker of the pool serves; empty if this one can.

    Raises:
        RelayError: that is not known, or the subscription must not be created on the owner.
        MetadataError: the metadata store does not answer.
    """
    services, topic = client.services, placement.topic
    if services.replay is not None:
        return ""
    if placement.cursor is CursorPlace.POOL:
        return await services.passthrough.refusal(topic, subscribe)
    if placement.local:
        return ""
    if placement.info.durable:
        await services.local_names.check(topic, client.identity, subscribe)
    return "a reason of the policy" if placement.bound and await services.passthrough.admit(topic, subscribe) else ""


def make_consumer(
    client: ClientLink,
    placement: Placement,
    subscribe: CommandSubscribe,
    claim: ClaimHandle | None,
    route: Route,
    partition: CursorPartition | None,
) -> ClientConsumer:
    """Make the consumer of a route.

    Args:
        client: the client's connection.
        placement: what bindings and cursors say about it.
        subscribe: the client's SUBSCRIBE.
        claim: its claim, of this broker or of another one; None without one.
        route: the route.
        partition: the partition with its cursor, for a local one.
    """
    services = client.services
    if isinstance(route, (Relay, Leased)):
        member = services.pool.members.get(route.peer)
        peer_url = services.owners.peer_url(route.peer, "" if member is None else member.tls_url)
        marked = marked_subscribe(subscribe, relayed_by=services.pool.url)
        if isinstance(route, Relay):
            return ProxiedConsumer(client, placement, marked, claim, route.peer, peer_url)
        mark_acks(marked)
        return LeasedConsumer(client, placement, marked, claim, route.peer, peer_url)
    marked = marked_subscribe(subscribe, pool=services.passthrough.pool if placement.of_pool else "")
    if isinstance(route, AtOwner):
        return OwnerPlacedConsumer(client, placement, marked_subscribe(subscribe), route.urls)
    if isinstance(route, Passthrough):
        return PassedThroughConsumer(client, placement, marked, claim)
    if isinstance(route, Local):
        assert partition is not None
        if placement.split and (only_acks(subscribe) or placement.request is not None):
            return AckingConsumer(client, placement, marked, claim, partition)
        if placement.split:
            return HeldSplitConsumer(client, placement, marked, claim, partition, changes_only=False)
        return LocallyKeptConsumer(client, placement, marked, claim, partition, changes_only=route.changes_only)
    way = SplitConsumer if placement.split else OwnerKeptConsumer
    return way(client, placement, marked, claim)


async def _begin(consumer: ClientConsumer, *, relayed: bool) -> BaseCommand:
    """Subscribe where the cursor is, and begin the consumer's way; return the answer to its client."""
    sent = lease_time()
    try:
        answer = await subscribe_at_owner(consumer, consumer.connection.services.exclusives)
    except OwnerRefusedError as error:
        if isinstance(consumer, LeasedConsumer):
            consumer.refused(error)
        raise
    if relayed:
        consumer.relayed_at = time.monotonic()  # after the owner has admitted it
    await consumer.begin(sent)
    return answer


def _check_unchanged(services: Services, consumer: ClientConsumer, placement: Placement, bindings: Bindings) -> None:
    """Check that a new consumer was not closed, and that the bindings still name its place.

    The broker closes only consumers of connections when bindings change, and this one is not listed there yet.

    Args:
        services: the shared parts of the broker.
        consumer: the consumer.
        placement: its place.
        bindings: the bindings that named the place.

    Raises:
        OwnerUnavailableError: it was closed, or they name another place.
    """
    topic, info = placement.topic, placement.info
    if consumer.unregistered:
        raise OwnerUnavailableError(f"the consumer of {topic} was closed during its creation; look it up again")
    if services.bindings is bindings:
        return
    bound = services.replay is not None or services.bindings.serves(topic, info.name)
    kept = bound and _kept_by_pool(services, topic, info)
    whole = placement.split and not services.splits_dispatch(topic, info.name)
    if bound != placement.bound or kept != (placement.cursor is CursorPlace.POOL) or whole:
        raise OwnerUnavailableError(f"the bindings of {topic} have changed; look it up again")
