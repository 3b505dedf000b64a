"""Producers that come to a pool: a lookup does not say what for.

They are created at the owner, and then moved there where the client goes where it is told; else relayed, message by message.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from readonly_engine.broker.bindings import Unbound
from readonly_engine.broker.listeners import DEFAULT
from readonly_engine.broker.lookup import turn_away_unbound
from readonly_engine.broker.moves import close_producer
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.relay.errors import OwnerUnavailableError, RelayError
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseProducer, CommandError, ProducerAccessMode

if TYPE_CHECKING:
    from readonly_engine.broker.connection import ClientConnection
    from readonly_engine.relay.connection import OwnerConnection

log = logging.getLogger(__name__)


class RelayedProducer:
    """A client's producer at the owner of its topic.

    Args:
        connection: the client's connection.
        command: its PRODUCER.
    """

    def __init__(self, connection: ClientConnection, command: BaseCommand) -> None:
        self.producer_id = command.producer.producer_id
        self._client = connection
        self._command = command
        self._owner: OwnerConnection | None = None
        self._owner_id = 0
        self.unanswered = 0

    async def start(self) -> None:
        """Create the producer at the owner, and tell the client what the owner says."""
        request_id = self._command.producer.request_id
        if self._client.broker.draining:
            self._fail(request_id, OwnerUnavailableError("this broker leaves the pool; look the topic up again"))
            return
        try:
            turn_away_unbound(self._client.broker, parse_topic_name(self._command.producer.topic))
        except TopicNameError:
            pass  # the owner says what is wrong with it
        except RelayError as error:
            self._fail(request_id, error)
            return
        try:
            owner = await self._client.broker.owners.owner_of(self._command.producer.topic, self._client.identity)
        except RelayError as error:
            self._fail(request_id, error)
            return
        self._owner = owner
        self._owner_id = owner.add_producer(self)
        relayed = BaseCommand()
        relayed.CopyFrom(self._command)
        relayed.producer.producer_id = self._owner_id

        def answered(response: BaseCommand | None) -> None:
            if response is None:
                return  # owner_gone tells the client
            if response.type == BaseCommand.ERROR:
                response.error.request_id = request_id
                self._client.drop_producer(self)
                owner.remove_producer(self._owner_id)
            else:
                response.producer_success.request_id = request_id
                if response.producer_success.producer_ready and self._may_move(
                    owner, response.producer_success.producer_name
                ):
                    self._client.broker.spawn(self._move(owner.direct_url, response))
                    return
            self._client.send(encode_command(response))

        owner.ask(relayed, answered)

    def _may_move(self, owner: OwnerConnection, name: str) -> bool:
        """Whether the client can publish at the owner itself: it goes where it is told, and speaks the same protocol."""
        client, producer = self._client, self._command.producer
        if client.broker.unbound is Unbound.PROXY or client.listener != DEFAULT:
            return False  # clients may have no way to the owner
        if not owner.direct_url or client.tls != owner.direct_url.startswith("pulsar+ssl:"):
            return False
        # With the other modes the producer has rights at the owner that another could take while it moves.
        if producer.producer_access_mode != ProducerAccessMode.AccessShared:
            return False
        who = (client.address, producer.topic, name)  # by the name that the owner gave it, with which it comes again
        return client.broker.moves.may(client.client_version, who, time.monotonic())

    async def _move(self, url: str, success: BaseCommand) -> None:
        """Send the client on to the owner before it has published anything: what it sends until then, it sends again there."""
        await self.close()
        self._client.drop_producer(self)
        self._client.send(encode_command(success))
        tls = url.startswith("pulsar+ssl:")
        self._client.send(close_producer(self.producer_id, "" if tls else url, url if tls else ""))

    def publish(self, command: BaseCommand, payload: bytes) -> None:
        """Pass a message on."""
        if self._owner is not None:
            self.unanswered += 1
            command.send.producer_id = self._owner_id
            self._owner.send(command, payload)

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the producer at the owner; returns the owner's answer, None where there is none."""
        owner, self._owner = self._owner, None
        if owner is None:
            return None
        if command is None:
            command = BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=CommandCloseProducer())
        command.close_producer.producer_id = self._owner_id
        try:
            return await owner.request(command)
        except RelayError as error:
            log.debug("producer %d: %s", self.producer_id, error)
            return None
        finally:
            owner.remove_producer(self._owner_id)

    def owner_said(self, command: BaseCommand, payload: bytes) -> None:
        """Called by the connection: receipts, errors, the end."""
        if command.type in {BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR}:
            self.unanswered -= 1
        if command.type == BaseCommand.SEND_RECEIPT:
            command.send_receipt.producer_id = self.producer_id
        elif command.type == BaseCommand.SEND_ERROR:
            command.send_error.producer_id = self.producer_id
        elif command.type == BaseCommand.CLOSE_PRODUCER:
            self.owner_gone()
            return
        elif command.type == BaseCommand.TOPIC_MIGRATED:
            command.topic_migrated.resource_id = self.producer_id
        self._client.send(encode_command(command, payload))

    def owner_writable(self, *, writable: bool) -> None:
        """Called by the connection: a client that publishes faster than the owner takes is read no faster."""
        self._client.hold_reading(self, hold=not writable)

    def finish(self) -> None:
        """Take no more messages from the client: those that it has sent and that were not read are sent again elsewhere."""
        self._client.hold_reading(self, hold=True)

    async def send_away(self) -> None:
        """Have the client create the producer anew, wherever it is sent then."""
        await self.close()
        self._dismiss()

    def owner_gone(self) -> None:
        """Called by the connection: the client connects again, and is relayed to the new owner."""
        if self._owner is not None:
            self._owner.remove_producer(self._owner_id)
            self._owner = None
        self.unanswered = 0
        self._dismiss()

    def _dismiss(self) -> None:
        self._client.drop_producer(self)
        self._client.send(close_producer(self.producer_id))

    def _fail(self, request_id: int, error: RelayError) -> None:
        self._client.drop_producer(self)
        message = CommandError(request_id=request_id, error=error.code, message=str(error))
        self._client.send(encode_command(BaseCommand(type=BaseCommand.ERROR, error=message)))
