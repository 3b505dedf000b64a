"""Where a client goes for a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.requests import ask_anyone, refuse_lookup
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.relay.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopicResponse, ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.connection import ClientConnection


async def answer_lookup(client: ClientConnection, command: BaseCommand) -> None:
    """Send the client to a broker of the pool, or for a topic that is not bound where the writable cluster says."""
    lookup = command.lookup_topic
    broker = client.broker
    try:
        bound = broker.bindings.covers(parse_topic_name(lookup.topic))
    except TopicNameError:
        bound = False  # the owner says what is wrong with it
    if not bound:
        await ask_anyone(client, command)
        return
    if not client.identity.anonymous and not await _permitted(client, command):
        return
    member = broker.choose_broker(tls=client.tls)
    if member is None:
        # Not the owner: a client stays where it is sent, and a subscription must not be served in two places.
        why = "no broker of the pool is up" + (" with a TLS address" if client.tls else "")
        refuse_lookup(client, command, lookup.request_id, OwnerUnavailableError(f"{why}; try again"))
        return
    response = CommandLookupTopicResponse(
        broker_service_url=member.url,
        broker_service_url_tls=member.tls_url or None,
        response=CommandLookupTopicResponse.Connect,
        request_id=lookup.request_id,
        authoritative=True,
    )
    client.send(encode_command(BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookup_topic_response=response)))


async def _permitted(client: ClientConnection, command: BaseCommand) -> bool:
    """Whether the client may look the topic up at all, as the owner sees it; it is told where it may not.

    A client that shows no credentials is not asked about: where it may nothing, it hears of it when it subscribes. The owner's
    other troubles are no reason to refuse: reads go on without it.
    """
    asked = BaseCommand()
    asked.CopyFrom(command)
    try:
        owner = await client.broker.owners.entrance(client.identity)
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
