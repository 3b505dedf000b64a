"""Producers that connect to a pool: a lookup does not say what it is for.

They are relayed to the owner for as long as they live, and not moved. A C++ client, and those built on it (Python, Node), begins
its sequence again when it is told PRODUCER_SUCCESS again before its first receipt (ProducerImpl::handleCreateProducer). Its next
message would reuse a sequence id, and deduplication would drop it.

An owner has REQUEST_TIMEOUT_S for its first answer to PRODUCER, as for any request. It answers at once where the producer waits
for exclusive access, which may last for ever. With a lookup and a new connection before that, a client waits for 70 s at most.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.pool.client_versions import restarts_sequence
from readonly_engine.broker.pool.redirects import close_producer
from readonly_engine.broker.session.lookup import reject_unbound
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError, RelayError
from readonly_engine.owner.requests import REQUEST_TIMEOUT_S
from readonly_engine.wire.commands import decode_command, encode_command
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandCloseProducer,
    CommandProducerSuccess,
    CommandSendError,
    ProducerAccessMode,
    ServerError,
)

if TYPE_CHECKING:
    from readonly_engine.broker.session.client_link import ClientLink
    from readonly_engine.broker.session.producer_connections import ProducerConnections
    from readonly_engine.owner.connection import OwnerConnection

log = logging.getLogger(__name__)

NOTHING_PUBLISHED = -1

UNUSED_SEQUENCE = 1 << 32
"""More than the messages that a client can have queued, so the next sequence id is not that of one of them."""


class ProducerRegistry(Protocol):
    """All producers of a client."""

    @property
    def connections(self) -> ProducerConnections:
        """The client's connections to owners."""

    def on_created(self, producer: ProxiedProducer) -> None:
        """The owner has answered for a producer, or nobody waits for its answer any more."""

    def drop(self, producer: ProxiedProducer, *, closed_by_broker: bool = False) -> None:
        """Forget a producer.

        Args:
            producer: the producer.
            closed_by_broker: whether the broker closes it; messages of it may be on their way.
        """


class ProxiedProducer:
    """A client's producer at the owner of its topic.

    Args:
        connection: the client's connection.
        producers: all of this client, and its connections to owners.
        command: its PRODUCER. The id in it is the producer's at the owner, too.

    Attributes:
        producer_id: the client's id of it.
        unanswered: messages that the owner has neither confirmed nor refused.
    """

    def __init__(self, connection: ClientLink, producers: ProducerRegistry, command: BaseCommand) -> None:
        self.producer_id = command.producer.producer_id
        self.unanswered = 0
        self._client = connection
        self._producers = producers
        self._connections = producers.connections
        self._command = command
        self._owner: OwnerConnection | None = None
        self._request = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._success: CommandProducerSuccess | None = None
        self._confirmed = False  # the client has a receipt
        self._migrated = False
        self._draining = False
        self._ended = False

    @property
    def ready(self) -> bool:
        """Whether the owner has created it, and the client may publish."""
        return self._success is not None

    @property
    def ended(self) -> bool:
        """Whether it is closed, or could not be created."""
        return self._ended

    async def start(self) -> None:
        """Create the producer at the owner, and send the owner's answer to the client."""
        services, topic = self._client.services, self._command.producer.topic
        try:
            if services.draining:
                raise OwnerUnavailableError("this broker leaves the pool; look the topic up again")
            with suppress(TopicNameError):  # the owner says what is wrong with it
                reject_unbound(services, parse_topic_name(topic))
            owner = await self._connections.connect_to_owner(topic)
            if owner.closed:
                raise OwnerUnavailableError(f"the connection to {owner.url} broke")
        except RelayError as error:
            if not self._ended:
                self._fail(error.code, str(error))
            return
        if self._ended:
            self._connections.on_producer_left(owner)  # the client has closed it meanwhile, or the broker leaves
            return
        self._owner = owner
        owner.add_producer(self.producer_id, self)
        relayed = BaseCommand()
        relayed.CopyFrom(self._command)  # which keeps the client's request id
        for large in ("schema", "metadata"):
            self._command.producer.ClearField(large)  # not needed again
        self._request = owner.send_request(relayed, self._on_response)
        self._deadline = asyncio.get_running_loop().call_later(REQUEST_TIMEOUT_S, self._on_deadline)

    def _on_deadline(self) -> None:
        """Refuse the client. The owner may create the producer still, so it is closed there."""
        owner = self._owner
        if owner is None or self._ended:
            return
        self._fail(ServerError.ServiceNotReady, f"{owner.url} did not answer PRODUCER in {REQUEST_TIMEOUT_S:g} s")
        self._client.services.spawn(self.close())

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_response(self, response: BaseCommand | None) -> None:
        """Called with the owner's answer, twice for a producer that waits for its turn; None where the connection broke."""
        self._cancel_deadline()
        if response is None or self._ended:
            return  # on_connection_lost answers the client
        if response.type == BaseCommand.ERROR:
            self._detach_owner()
            self._invalidate_owner()
            self._fail(response.error.error, response.error.message)
            return
        self._producers.on_created(self)
        response.producer_success.request_id = self._command.producer.request_id
        if response.producer_success.producer_ready:
            self._success = response.producer_success
            if self._would_reuse_sequence:
                response.producer_success.last_sequence_id = UNUSED_SEQUENCE
        self._client.send(encode_command(response))

    @property
    def _would_reuse_sequence(self) -> bool:
        """Whether the client may have queued messages whose sequence ids it would use again (restarts_sequence).

        It sends a name that the owner has generated, so it was told PRODUCER_SUCCESS before; and nothing of that name is stored.
        Where the user has chosen the name, the owner's answer is passed on: it may say to the user what to publish next.
        """
        asked = self._command.producer
        return (
            asked.producer_name != ""
            and not asked.user_provided_producer_name
            and self._success is not None
            and self._success.last_sequence_id == NOTHING_PUBLISHED
            and restarts_sequence(self._client.client_version)
        )

    def respond_duplicate(self, request_id: int) -> None:
        """Answer another PRODUCER with the id of this one, as an owner does (ServerCnx.handleProducer)."""
        if self._success is None:
            self._client.refuse(
                request_id, ServerError.ServiceNotReady, "Producer is already present on the connection"
            )
            return
        again = CommandProducerSuccess(
            request_id=request_id,
            producer_name=self._success.producer_name,
            schema_version=self._success.schema_version,
        )
        self._client.send(encode_command(BaseCommand(type=BaseCommand.PRODUCER_SUCCESS, producer_success=again)))

    def publish(self, frame: bytes) -> None:
        """Relay a SEND.

        While the broker leaves, a producer that has a receipt publishes no more: its client sends again elsewhere what is dropped
        here. One that has none would start its sequence again there, so its messages are relayed until one is confirmed.
        """
        if self._owner is None or (self._draining and self._confirmed):
            return
        if refused := self._owner.forward(frame):
            send = decode_command(frame)[0].send
            error = CommandSendError(
                producer_id=self.producer_id,
                sequence_id=send.sequence_id,
                error=ServerError.NotAllowedError,
                message=refused,
            )
            self._client.send(encode_command(BaseCommand(type=BaseCommand.SEND_ERROR, send_error=error)))
        else:
            self.unanswered += 1

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the producer at the owner; returns the owner's answer, None where there is none."""
        self._ended = True
        self._cancel_deadline()
        owner, self._owner = self._owner, None
        if owner is None:
            return None
        if command is None:
            close = CommandCloseProducer(producer_id=self.producer_id)
            command = BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close)
        owner.forget(self._request)  # an owner does not answer a PRODUCER that is closed before it was done
        try:
            return await owner.request(command)
        except RelayError as error:
            log.debug("producer %d: %s", self.producer_id, error)
            return None
        finally:
            owner.remove_producer(self.producer_id, self)
            self._connections.on_producer_left(owner)

    def on_client_lost(self) -> None:
        """Called by the client's connection: the owner closes the producer when it loses the connection."""
        self._ended = True
        self._cancel_deadline()
        self._owner = None

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """Called by the connection: receipts, errors, the end."""
        if command.type == BaseCommand.SEND_RECEIPT:
            self.unanswered = max(0, self.unanswered - 1)
            self._confirmed = True
        elif command.type == BaseCommand.SEND_ERROR:
            self.unanswered = max(0, self.unanswered - 1)
        elif command.type == BaseCommand.CLOSE_PRODUCER:
            self.on_connection_lost()
            return
        elif command.type == BaseCommand.TOPIC_MIGRATED:
            self._migrated = True
        self._client.send(encode_command(command, payload))

    def start_draining(self) -> None:
        """Begin to leave: see `publish`."""
        self._draining = True

    async def close_for_reconnect(self) -> None:
        """Have the client create the producer anew, wherever it is sent then."""
        if not self._confirmed and self._command.producer.producer_access_mode == ProducerAccessMode.AccessShared:
            # It has published nothing. The client hears of it at once, so that it publishes nothing in between either.
            self._close_at_client()
            await self.close()
        else:
            await self.close()
            self._close_at_client()

    def on_connection_lost(self) -> None:
        """Called by the connection: the client creates the producer anew, and is relayed to the new owner."""
        self._detach_owner()
        self._invalidate_owner()
        if not self._ended:
            self._close_at_client()

    def _detach_owner(self) -> None:
        self._cancel_deadline()
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.forget(self._request)
            owner.remove_producer(self.producer_id, self)
            self._connections.on_producer_left(owner)
        self.unanswered = 0

    def _invalidate_owner(self) -> None:
        self._client.services.owners.invalidate(self._command.producer.topic, self._client.identity)

    def _close_at_client(self) -> None:
        """Close it at the client: a client that waits for its creation gets an error, else it would wait for long."""
        if self._success is None and not self._migrated:
            self._fail(
                ServerError.ServiceNotReady, "the owner of the topic has closed the producer; look the topic up again"
            )
            return
        self._ended = True
        self._producers.drop(self, closed_by_broker=True)
        self._client.send(close_producer(self.producer_id))

    def _fail(self, code: ServerError, message: str) -> None:
        self._ended = True
        self._producers.drop(self)
        self._client.refuse(self._command.producer.request_id, code, message)
