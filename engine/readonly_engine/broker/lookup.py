"""Where a client goes for a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.requests import ask_anyone
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopicResponse

if TYPE_CHECKING:
    from readonly_engine.broker.connection import ClientConnection


async def answer_lookup(client: ClientConnection, command: BaseCommand) -> None:
    """Send the client to a broker of the pool, or for a topic that is not bound where the writable cluster says."""
    lookup = command.lookup_topic
    try:
        url = client.broker.redirect_for(parse_topic_name(lookup.topic))
    except TopicNameError:
        url = None  # the owner says what is wrong with it
    if url is None:
        await ask_anyone(client, command)
        return
    response = CommandLookupTopicResponse(
        broker_service_url=url,
        response=CommandLookupTopicResponse.Connect,
        request_id=lookup.request_id,
        authoritative=True,
    )
    client.send(encode_command(BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookup_topic_response=response)))
