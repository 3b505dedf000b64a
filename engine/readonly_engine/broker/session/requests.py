"""Requests of clients that brokers of the source cluster answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.pool.pending_redirects import ARRIVAL_TIMEOUT_S
from readonly_engine.broker.session.client_link import ClientLink
from readonly_engine.owner.errors import RelayError
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    ServerError,
)

if TYPE_CHECKING:
    from readonly_engine.broker.session.consumer import Consumer

ANY_BROKER_REQUESTS = frozenset(
    {BaseCommand.PARTITIONED_METADATA, BaseCommand.GET_TOPICS_OF_NAMESPACE, BaseCommand.GET_SCHEMA}
)
"""Requests that every broker of the source cluster can answer."""

CONSUMER_REQUESTS = frozenset(
    {
        BaseCommand.SEEK,
        BaseCommand.UNSUBSCRIBE,
        BaseCommand.GET_LAST_MESSAGE_ID,
        BaseCommand.CONSUMER_STATS,
    }
)
"""Requests that concern a consumer and are answered by the owner."""

_CLOSING_REQUESTS = frozenset({BaseCommand.SEEK, BaseCommand.UNSUBSCRIBE})
"""Those before whose answer the owner closes the consumers of the subscription."""

POLL_INTERVAL_S = 0.05
"""Between two looks for consumers that are on their way here."""


class ConsumerLink(ClientLink, Protocol):
    """A client's connection whose consumers are asked for by id."""

    def consumer(self, consumer_id: int) -> Consumer | None:
        """Return the consumer with an id."""


async def relay_to_any_broker(client: ClientLink, command: BaseCommand) -> None:
    """Have any broker of the source cluster answer."""
    request_id = body_of(command).request_id
    try:
        owner = await client.services.owners.any_broker(client.identity)
        client.respond(await owner.request(command), request_id)
    except RelayError as error:
        refuse_lookup(client, command, request_id, error)


async def relay_to_schema_owner(client: ClientLink, command: BaseCommand) -> None:
    """Have the owner of a topic say which version a schema has there."""
    request_id = command.get_or_create_schema.request_id
    try:
        owner = await client.services.owners.owner_of(command.get_or_create_schema.topic, client.identity)
        client.respond(await owner.request(command), request_id)
    except RelayError as error:
        client.refuse(request_id, error.code, str(error))


async def relay_for_consumer(client: ConsumerLink, command: BaseCommand) -> None:
    """Have the owner answer what concerns a consumer, and do here what follows from it."""
    body = body_of(command)
    request_id = body.request_id
    consumer = client.consumer(body.consumer_id)
    if consumer is None:
        client.refuse(request_id, ServerError.MetadataError, f"no consumer {body.consumer_id} on this connection")
        return
    subscription = consumer.subscription
    if command.type == BaseCommand.UNSUBSCRIBE and not command.unsubscribe.force:
        await _await_redirects(consumer)
    try:
        with ExitStack() as closing:
            if command.type in _CLOSING_REQUESTS:
                closing.enter_context(consumer.owner_consumer.expecting_close())
                if subscription is not None:
                    closing.enter_context(subscription.moving_cursor())
            relay = (
                consumer.owner_consumer.request_with_retry
                if command.type == BaseCommand.GET_LAST_MESSAGE_ID
                else consumer.owner_consumer.request
            )
            answer = await relay(command)
    except RelayError as error:
        client.refuse(request_id, error.code, str(error))
        return
    if answer.type == BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE and subscription is not None:
        last = answer.get_last_message_id_response.last_message_id
        subscription.confirm(Position(last.ledger_id, last.entry_id))
    elif answer.type == BaseCommand.CONSUMER_STATS_RESPONSE:
        consumer.complete_stats(answer.consumer_stats_response)
    elif answer.type == BaseCommand.SUCCESS and command.type in _CLOSING_REQUESTS:
        if command.type == BaseCommand.UNSUBSCRIBE:
            client.drop_consumer(consumer)
        if subscription is not None:
            # The cursor is elsewhere now, or is no more: every consumer of the subscription starts over.
            subscription.reset()
            for other in subscription.consumers:
                other.close_for_resubscribe("seek" if command.type == BaseCommand.SEEK else "unsubscribe by force")
    client.respond(answer, request_id)


async def _await_redirects(consumer: Consumer) -> None:
    """Wait until all consumers of a subscription that are on their way here are at the owner, who then counts them.

    Any client may claim to be on its way, again and again: so nobody is waited for any longer than one takes to come.
    """
    redirects = consumer.connection.services.pending_redirects
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    while consumer.claim is not None and not consumer.unregistered:
        now = time.monotonic()
        if now >= deadline or not redirects.expected(consumer.claim.key, now):
            return
        await asyncio.sleep(POLL_INTERVAL_S)


def refuse_lookup(client: ClientLink, command: BaseCommand, request_id: int, error: RelayError) -> None:
    """Answer with an error; lookups and metadata requests have errors of their own."""
    # A client closes its whole connection on ServiceNotReady here; MetadataError makes it try again (ClientCnx).
    code = ServerError.MetadataError if error.code == ServerError.ServiceNotReady else error.code
    if command.type == BaseCommand.LOOKUP:
        response = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE)
        response.lookup_topic_response.response = CommandLookupTopicResponse.Failed
    elif command.type == BaseCommand.PARTITIONED_METADATA:
        response = BaseCommand(type=BaseCommand.PARTITIONED_METADATA_RESPONSE)
        response.partition_metadata_response.response = CommandPartitionedTopicMetadataResponse.Failed
    else:
        client.refuse(request_id, error.code, str(error))
        return
    body = body_of(response)
    body.error, body.message = code, str(error)
    client.respond(response, request_id)
