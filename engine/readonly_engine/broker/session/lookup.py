"""Lookups of topics: answers name a broker of the pool, or come from the source cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine import tracing
from readonly_engine.broker.pool.client_locality import client_locality, names_locality
from readonly_engine.broker.pool.unbound import is_coordinator_topic, unbound_error
from readonly_engine.broker.session.requests import refuse_lookup, relay_to_any_broker
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.config.settings import Unbound
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopicResponse, ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.metadata.topic_name import TopicName


async def answer_lookup(client: ClientLink, command: BaseCommand) -> None:
    """Answer LOOKUP with a broker of the pool; for an unbound topic, follow the pool's setting `unbound`."""
    lookup = command.lookup_topic
    about: dict[str, str | int] = {
        "pulsar.topic": lookup.topic,
        "pulsar.request_id": lookup.request_id,
        "client.address": client.peer,
    }
    with tracing.span("LOOKUP", about):
        await _answer(client, command)


async def _answer(client: ClientLink, command: BaseCommand) -> None:
    lookup = command.lookup_topic
    services = client.services
    try:
        topic = parse_topic_name(lookup.topic)
    except TopicNameError:
        await relay_to_any_broker(client, command)  # for the error of the source cluster
        return
    if not services.bindings.covers(topic):
        await _answer_unbound(client, command, topic)
        return
    replays = services.replay is not None
    if not replays and not client.identity.anonymous and not await _lookup_permitted(client, command):
        return
    if _redirect_to_pool(client, command):
        return
    if not replays and services.bindings.falls_back(topic):
        await _relay_lookup(client, command)
        return
    # The answer is not the owner, unless the binding has that fallback: clients stay there, with the load of the pool.
    refuse_lookup(
        client, command, lookup.request_id, OwnerUnavailableError(_no_broker_error(client, _listener(client, command)))
    )


def _listener(client: ClientLink, command: BaseCommand) -> str:
    """Return the listener that the lookup names, or else the one of the client's port. A locality is no listener."""
    name = command.lookup_topic.advertised_listener_name
    return client.listener if not name or names_locality(name) else name


def _no_broker_error(client: ClientLink, listener: str) -> str:
    members = client.services.pool.members.values()
    names = sorted({name for member in members for name in member.listeners})
    if members and listener != DEFAULT and listener not in names:
        there = f"it has {', '.join(names)}" if names else "it has none"
        return f"no broker of the pool has a listener {listener}: {there}"
    return "no broker of the pool is up" + (" with a TLS address" if client.tls else "") + "; try again"


def _redirect_to_pool(client: ClientLink, command: BaseCommand) -> bool:
    """Answer with a broker of the pool; return False without one."""
    listener = _listener(client, command)
    member = client.services.choose_broker(
        tls=client.tls, listener=listener, locality=client_locality(command.lookup_topic)
    )
    if member is None:
        return False
    urls = member.urls_for(listener)
    response = CommandLookupTopicResponse(
        broker_service_url=urls.url or None,
        broker_service_url_tls=urls.tls_url or None,
        response=CommandLookupTopicResponse.Connect,
        request_id=command.lookup_topic.request_id,
        authoritative=True,
    )
    client.send(encode_command(BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookup_topic_response=response)))
    return True


async def _answer_unbound(client: ClientLink, command: BaseCommand, topic: TopicName) -> None:
    services, request_id = client.services, command.lookup_topic.request_id
    why = unbound_error(services, topic)
    if why:
        refuse_lookup(client, command, request_id, OwnerRefusedError(ServerError.NotAllowedError, why))
        return
    if services.unbound is not Unbound.PROXY or is_coordinator_topic(topic):
        await _relay_lookup(client, command)
        return
    asked = _without_listener(command)
    try:
        owner = await services.owners.any_broker(client.identity)
        answer = await owner.request(asked)
    except RelayError as error:
        refuse_lookup(client, command, request_id, error)
        return
    if answer.lookup_topic_response.response == CommandLookupTopicResponse.Failed or not _redirect_to_pool(
        client, command
    ):
        client.respond(answer, request_id)


async def _relay_lookup(client: ClientLink, command: BaseCommand) -> None:
    """Relay a lookup to the source cluster, whose brokers refuse the name of a listener that they do not have.

    A redirected client would send them its listener's name itself. So this broker follows redirects for a client that gives its
    locality there.
    """
    if not names_locality(command.lookup_topic.advertised_listener_name):
        await relay_to_any_broker(client, command)
        return
    request_id = command.lookup_topic.request_id
    try:
        answer = await client.services.owners.look_up(_without_listener(command).lookup_topic, client.identity)
        client.respond(answer, request_id)
    except RelayError as error:
        refuse_lookup(client, command, request_id, error)


def _without_listener(command: BaseCommand) -> BaseCommand:
    """Return a copy without the listener's name, for brokers of the source cluster, which may not have the pool's listeners."""
    asked = BaseCommand()
    asked.CopyFrom(command)
    asked.lookup_topic.ClearField("advertised_listener_name")
    return asked


async def _lookup_permitted(client: ClientLink, command: BaseCommand) -> bool:
    """Return whether the source cluster authorizes the lookup; if not, answer the client with its error.

    The caller leaves out clients without credentials: their SUBSCRIBE is refused if necessary. Other errors count as permission,
    because reads continue without an owner.
    """
    asked = _without_listener(command)
    try:
        owner = await client.services.owners.any_broker(client.identity)
        answer = await owner.request(asked)
    except OwnerRefusedError as error:
        refuse_lookup(client, command, command.lookup_topic.request_id, error)
        return False
    except RelayError:
        return True
    if answer.lookup_topic_response.error != ServerError.AuthorizationError:
        return True
    client.respond(answer, command.lookup_topic.request_id)
    return False
