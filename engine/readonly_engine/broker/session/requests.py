"""Requests of clients that the broker relays to the source cluster."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.consumer.client_link import ClientLink
from readonly_engine.broker.consumer.services import Services
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.pending_redirects import ARRIVAL_TIMEOUT_S
from readonly_engine.broker.replay.replay import refuse_write
from readonly_engine.metadata.errors import MetadataError, TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    ServerError,
)

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.replay.replay import Replay
    from readonly_engine.broker.session.request_quota import RequestQuota

_CLOSING_REQUESTS = frozenset({BaseCommand.SEEK, BaseCommand.UNSUBSCRIBE})
"""Requests for which the owner closes the consumers of the subscription before it answers."""

POLL_INTERVAL_S = 0.05
"""Interval between checks for redirected consumers."""


class RequestServices(Services, Protocol):
    """The broker, with its quota of requests.

    Attributes:
        requests: quota of unanswered requests of all clients.
    """

    requests: RequestQuota


class ConsumerLink(ClientLink, Protocol):
    """A client's connection that finds its consumers by id."""

    @property
    def services(self) -> RequestServices:
        """The shared parts of the broker."""

    def consumer(self, consumer_id: int) -> ClientConsumer | None:
        """Return the consumer with an id; None without one."""


async def relay_to_any_broker(client: ClientLink, command: BaseCommand) -> None:
    """Relay a request to any broker of the source cluster. A replay answers one for the partitions of a topic itself."""
    request_id = body_of(command).request_id
    if client.services.replay is not None and command.type == BaseCommand.PARTITIONED_METADATA:
        await _answer_partitions(client, client.services.replay, command)
        return
    try:
        owner = await client.services.owners.any_broker(client.identity)
        client.respond(await owner.request(command), request_id)
    except RelayError as error:
        refuse_lookup(client, command, request_id, error)


async def _answer_partitions(client: ClientLink, replay: Replay, command: BaseCommand) -> None:
    asked = command.partition_metadata
    try:
        partitions = await replay.partitions(parse_topic_name(asked.topic))
    except TopicNameError as error:
        refuse_lookup(client, command, asked.request_id, OwnerRefusedError(ServerError.InvalidTopicName, str(error)))
    except MetadataError as error:
        refuse_lookup(client, command, asked.request_id, OwnerUnavailableError(str(error)))
    else:
        found = CommandPartitionedTopicMetadataResponse(
            partitions=partitions, response=CommandPartitionedTopicMetadataResponse.Success
        )
        answer = BaseCommand(type=BaseCommand.PARTITIONED_METADATA_RESPONSE, partition_metadata_response=found)
        client.respond(answer, asked.request_id)


async def relay_to_schema_owner(client: ClientLink, command: BaseCommand) -> None:
    """Relay GET_OR_CREATE_SCHEMA to the owner of the topic."""
    request_id = command.get_or_create_schema.request_id
    if client.services.replay is not None:
        client.refuse(request_id, ServerError.NotAllowedError, str(refuse_write("the creation of a schema")))
        return
    try:
        owner = await client.services.owners.owner_of(command.get_or_create_schema.topic, client.identity)
        client.respond(await owner.request(command), request_id)
    except RelayError as error:
        client.refuse(request_id, error.code, str(error))


async def relay_for_consumer(client: ConsumerLink, command: BaseCommand) -> None:
    """Relay a request of a consumer to its owner, and apply the answer: a SEEK, for example, resets the subscription."""
    body = body_of(command)
    consumer = client.consumer(body.consumer_id)
    if consumer is None:
        client.refuse(body.request_id, ServerError.MetadataError, f"no consumer {body.consumer_id} on this connection")
        return
    async with consumer.requesting():
        await _relay_request(client, consumer, command)


async def _relay_request(client: ConsumerLink, consumer: ClientConsumer, command: BaseCommand) -> None:
    request_id, subscription = body_of(command).request_id, consumer.affected_subscription()
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
            # The cursor was moved or deleted, so all consumers of the subscription must subscribe again.
            subscription.reset()
            for other in subscription.consumers:
                other.close_for_resubscribe("seek" if command.type == BaseCommand.SEEK else "unsubscribe by force")
    client.respond(answer, request_id)


async def _await_redirects(consumer: ClientConsumer) -> None:
    """Wait for redirected consumers of a subscription, because the owner refuses UNSUBSCRIBE only if it counts them.

    A client can pretend to be redirected again and again, so the wait ends after ARRIVAL_TIMEOUT_S.
    """
    redirects = consumer.connection.services.pending_redirects
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    key = ClaimKey(consumer.topic, consumer.info.name)
    while consumer.claim is not None and not consumer.unregistered:
        now = time.monotonic()
        if now >= deadline or not redirects.expected(key, now):
            return
        await asyncio.sleep(POLL_INTERVAL_S)


def refuse_lookup(client: ClientLink, command: BaseCommand, request_id: int, error: RelayError) -> None:
    """Answer a request with an error, in the response type of lookups and of partition metadata."""
    # On ServiceNotReady in these responses a client closes the whole connection; on MetadataError it retries (ClientCnx).
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
