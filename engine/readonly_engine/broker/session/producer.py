"""Producers that connect to a pool, because a lookup does not name its purpose. The broker proxies them to the owner.

A producer is never moved to the owner. C++ clients, and those built on them (Python, Node), restart their sequence at a second
PRODUCER_SUCCESS before the first receipt (ProducerImpl::handleCreateProducer). The next message would reuse a sequence id, and
deduplication would drop it.

The owner's first answer to PRODUCER is due within REQUEST_TIMEOUT_S. A producer that waits for exclusive access gets its first
answer at once, and the second one perhaps never. With a lookup and a new connection before, a client waits 70 s at most.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from readonly_engine.background import ends
from readonly_engine.broker.pool.client_versions import restarts_sequence
from readonly_engine.broker.pool.redirects import close_producer
from readonly_engine.broker.pool.unbound import reject_unbound
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
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.session.producer_connections import ProducerConnections
    from readonly_engine.owner.connection import OwnerConnection

log = logging.getLogger(__name__)

NOTHING_PUBLISHED = -1

UNUSED_SEQUENCE = 1 << 32
"""A last_sequence_id above the queue of any client, so that the next sequence id is not one of a queued message."""


class ProducerRegistry(Protocol):
    """The producers of a client."""

    @property
    def connections(self) -> ProducerConnections:
        """The client's connections to owners."""

    def on_created(self, producer: ProxiedProducer) -> None:
        """Release the quota of a PRODUCER that was answered or given up."""

    def drop(self, producer: ProxiedProducer, *, closed_by_broker: bool = False) -> None:
        """Remove a producer.

        Args:
            producer: the producer.
            closed_by_broker: whether the broker closes it. Then more messages may arrive before the client knows.
        """


class ProxiedProducer:
    """A client's producer, proxied to the owner of its topic.

    Args:
        connection: the client's connection.
        producers: the client's producers and connections to owners.
        command: the client's PRODUCER. The owner uses the same producer id.

    Attributes:
        producer_id: id of the producer.
        unanswered: number of messages that the owner has neither confirmed nor refused.
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
        self._answered: asyncio.Future[None] | None = None  # the next answer to a message, for who waits for it

    @property
    def ready(self) -> bool:
        """Whether the client may publish: the owner has created the producer, with access if it is exclusive."""
        return self._success is not None

    @property
    def ended(self) -> bool:
        """Whether the producer was closed, or could not be created."""
        return self._ended

    async def start(self) -> None:
        """Connect to the owner and send PRODUCER; `_on_response` relays the answer."""
        services, topic = self._client.services, self._command.producer.topic
        try:
            if services.draining:
                raise OwnerUnavailableError("this broker leaves the pool; look the topic up again")
            with suppress(TopicNameError):  # the lookup below returns the error of the source cluster
                reject_unbound(services, parse_topic_name(topic))
            owner = await self._connections.connect_to_owner(topic)
            if owner.closed:
                raise OwnerUnavailableError(f"the connection to {owner.url} broke")
        except RelayError as error:
            if not self._ended:
                self._fail(error.code, str(error))
            return
        if self._ended:
            self._connections.on_producer_left(
                owner
            )  # the client has closed the producer meanwhile, or the broker leaves
            return
        self._owner = owner
        owner.add_producer(self.producer_id, self)
        relayed = BaseCommand()
        relayed.CopyFrom(self._command)  # send_request changes the request id of the copy
        for large in ("schema", "metadata"):
            self._command.producer.ClearField(large)  # to save memory: nothing reads them again
        self._request = owner.send_request(relayed, self._on_response)
        self._deadline = asyncio.get_running_loop().call_later(REQUEST_TIMEOUT_S, self._on_deadline)

    @ends("_client.abort")
    def _on_deadline(self) -> None:
        """Refuse the producer, and close it on the owner, which may create it later."""
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
        """Relay an answer of the owner. A producer that waits for exclusive access gets two.

        Args:
            response: the answer; None if the connection to the owner is lost.
        """
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
        """Whether the client may reuse sequence ids of queued messages (restarts_sequence).

        Such a client sends a name that the owner has generated, so it got PRODUCER_SUCCESS before; and nothing of that name is
        stored. For a name chosen by the user the owner's answer stays as it is: an application may use it to continue.
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
        """Answer a second PRODUCER with this producer's id, as an owner does (ServerCnx.handleProducer)."""
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

        While the broker drains, messages of a producer with a receipt are dropped: its client sends them again on another broker.
        Without a receipt the client would restart its sequence there, so messages are relayed until the first receipt.
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
        """Close the producer on the owner; return the owner's answer, None without one.

        Args:
            command: the client's CLOSE_PRODUCER, if the client closes it.
        """
        self._ended = True
        self._on_answered()
        self._cancel_deadline()
        owner, self._owner = self._owner, None
        if owner is None:
            return None
        if command is None:
            close = CommandCloseProducer(producer_id=self.producer_id)
            command = BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close)
        owner.forget(self._request)  # an owner does not answer a PRODUCER that is closed before its creation
        try:
            return await owner.request(command)
        except RelayError as error:
            log.debug("close on the owner failed: producer=%d error=%s", self.producer_id, error)
            return None
        finally:
            owner.remove_producer(self.producer_id, self)
            self._connections.on_producer_left(owner)

    def on_client_lost(self) -> None:
        """End the producer after its client has disconnected. The owner closes it with the client's connection to the owner."""
        self._ended = True
        self._on_answered()
        self._cancel_deadline()
        self._owner = None

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """Relay a command of the owner: SEND_RECEIPT, SEND_ERROR, CLOSE_PRODUCER, TOPIC_MIGRATED."""
        if command.type == BaseCommand.SEND_RECEIPT:
            self.unanswered = max(0, self.unanswered - 1)
            self._confirmed = True
            self._on_answered()
        elif command.type == BaseCommand.SEND_ERROR:
            self.unanswered = max(0, self.unanswered - 1)
            self._on_answered()
        elif command.type == BaseCommand.CLOSE_PRODUCER:
            self.on_connection_lost()
            return
        elif command.type == BaseCommand.TOPIC_MIGRATED:
            self._migrated = True
        self._client.send(encode_command(command, payload))

    def start_draining(self) -> None:
        """Begin to drain: see `publish`."""
        self._draining = True

    async def close_for_reconnect(self) -> None:
        """Close the producer on both sides, so that the client looks the topic up and creates it again.

        First wait for a receipt, if messages are under way and none has one: the client ignores a receipt that comes after
        CLOSE_PRODUCER. It would restart its sequence with the ids of its queued messages, and deduplication would drop these.
        """
        while self.unanswered and not self._confirmed and not self._ended:
            self._answered = asyncio.get_running_loop().create_future()
            await self._answered
        if self._ended:
            return
        if not self._confirmed and self._command.producer.producer_access_mode == ProducerAccessMode.AccessShared:
            # Nothing is published yet. Close it on the client first, so that nothing is published in between, either.
            self._close_at_client()
            await self.close()
        else:
            await self.close()
            self._close_at_client()

    def on_connection_lost(self) -> None:
        """Close the producer on the client when the owner has closed it or is lost: the client creates it on the new owner."""
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
        self._on_answered()

    def _on_answered(self) -> None:
        answered, self._answered = self._answered, None
        if answered is not None and not answered.done():
            answered.set_result(None)

    def _invalidate_owner(self) -> None:
        self._client.services.owners.invalidate(self._command.producer.topic, self._client.identity)

    def _close_at_client(self) -> None:
        """Close the producer on the client. If it waits for PRODUCER_SUCCESS, send an error, so that it retries at once."""
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
