"""A connection to one broker of the writable cluster: the asyncio shell around OwnerSession."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, cast

from readonly_engine.relay.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.relay.session import OwnerSession
from readonly_engine.wire.commands import command_name, encode_command
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandConnected

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.relay.identity import Identity

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 30.0


class Resident(Protocol):
    """A consumer or producer that lives on a connection under an id."""

    def owner_said(self, command: BaseCommand, payload: bytes) -> None:
        """The owner sent a command for this id."""

    def owner_gone(self) -> None:
        """The connection broke."""


class Publisher(Resident, Protocol):
    """A producer, which must publish no faster than the owner takes messages."""

    def owner_writable(self, *, writable: bool) -> None:
        """The owner's connection takes more, or for now no more."""


class OwnerConnection(asyncio.Protocol):
    """Carries the requests of many clients of one identity, and hands what the owner says to whom it concerns."""

    def __init__(self, url: str, identity: Identity) -> None:
        self.url = url
        self._loop = asyncio.get_running_loop()
        self._identity = identity
        self._session = OwnerSession()
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[CommandConnected] = self._loop.create_future()
        self._answers: dict[int, Callable[[BaseCommand | None], None]] = {}
        self._consumers: dict[int, Resident] = {}
        self._producers: dict[int, Publisher] = {}
        self._last_consumer = 0
        self._last_producer = 0
        self.handshake = CommandConnected()
        self.closed = False

    @classmethod
    async def open(cls, url: str, host: str, port: int, identity: Identity) -> OwnerConnection:
        """Connect and authenticate.

        Raises:
            OwnerUnavailableError: nobody answers there in time.
            OwnerRefusedError: the credentials were refused.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(lambda: cls(url, identity), host, port)
                connection.handshake = await connection._connected  # noqa: SLF001 - its own
        except TimeoutError as error:
            raise OwnerUnavailableError(f"{url} did not answer in {CONNECT_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise OwnerUnavailableError(f"{url} cannot be reached: {error}") from error
        return connection

    # Requests

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Send a command and wait for its answer, which may be an ERROR.

        Raises:
            OwnerUnavailableError: the connection broke, or there was no answer in time.
        """
        answer: asyncio.Future[BaseCommand] = self._loop.create_future()

        def settle(response: BaseCommand | None) -> None:
            if answer.done():
                return
            if response is None:
                answer.set_exception(OwnerUnavailableError(f"the connection to {self.url} broke"))
            else:
                answer.set_result(response)

        request_id = self.ask(command, settle)
        try:
            return await asyncio.wait_for(answer, REQUEST_TIMEOUT_S)
        except TimeoutError as error:
            raise OwnerUnavailableError(
                f"{self.url} did not answer {command_name(command)} in {REQUEST_TIMEOUT_S:g} s"
            ) from error
        finally:
            self._answers.pop(request_id, None)
            self._session.forget(request_id)

    def ask(self, command: BaseCommand, answered: Callable[[BaseCommand | None], None]) -> int:
        """Send a command; `answered` gets its answer, None when the connection breaks before. For acks: no future each."""
        request_id, data = self._session.request(command)
        self._answers[request_id] = answered
        if self.closed or self._transport is None:
            self._loop.call_soon(self._settle, request_id, None)
        else:
            self._transport.write(data)
        return request_id

    def send(self, command: BaseCommand, payload: bytes = b"") -> None:
        """Send a command that has no answer, or whose answer comes to a resident."""
        if self._transport is not None and not self.closed:
            self._transport.write(encode_command(command, payload))

    # Residents

    def add_consumer(self, resident: Resident) -> int:
        """A new consumer id on this connection."""
        self._last_consumer += 1
        self._consumers[self._last_consumer] = resident
        return self._last_consumer

    def remove_consumer(self, consumer_id: int) -> None:
        """The id is used no more."""
        self._consumers.pop(consumer_id, None)

    def add_producer(self, resident: Publisher) -> int:
        """A new producer id on this connection."""
        self._last_producer += 1
        self._producers[self._last_producer] = resident
        return self._last_producer

    def remove_producer(self, producer_id: int) -> None:
        """The id is used no more."""
        self._producers.pop(producer_id, None)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class
        self._transport = transport
        transport.write(self._session.connect(self._identity))

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            received = self._session.receive_data(data)
        except WireError as error:
            log.warning("%s: %s; closing the connection", self.url, error)
            self.close()
            return
        reply = self._session.data_to_send()
        if reply and self._transport is not None:
            self._transport.write(reply)
        for command, payload, request_id in received:
            if request_id is not None:
                self._settle(request_id, command)
            elif not self._connected.done():
                self._finish_handshake(command)
            else:
                self._deliver(command, payload)

    def pause_writing(self) -> None:
        """Called by asyncio."""
        for producer in list(self._producers.values()):
            producer.owner_writable(writable=False)

    def resume_writing(self) -> None:
        """Called by asyncio."""
        for producer in list(self._producers.values()):
            producer.owner_writable(writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.closed = True
        if not self._connected.done():
            self._connected.set_exception(
                OwnerUnavailableError(f"{self.url} closed the connection: {exc or 'end of stream'}")
            )
        for request_id in list(self._answers):
            self._settle(request_id, None)
        residents = [*self._consumers.values(), *self._producers.values()]
        self._consumers.clear()
        self._producers.clear()
        for resident in residents:
            resident.owner_gone()

    def _finish_handshake(self, command: BaseCommand) -> None:
        if command.type == BaseCommand.CONNECTED:
            self._connected.set_result(command.connected)
        elif command.type == BaseCommand.ERROR:
            self._connected.set_exception(OwnerRefusedError(command.error.error, command.error.message))
        else:
            self._connected.set_exception(
                OwnerUnavailableError(
                    f"{self.url} answered the handshake with {command_name(command)}, which is not supported"
                )
            )

    def _settle(self, request_id: int, response: BaseCommand | None) -> None:
        if (
            response is not None
            and response.type == BaseCommand.PRODUCER_SUCCESS
            and not response.producer_success.producer_ready
        ):
            answered = self._answers.get(request_id)
        else:
            answered = self._answers.pop(request_id, None)
        if answered is not None:
            answered(response)

    def _deliver(self, command: BaseCommand, payload: bytes) -> None:
        kind = command.type
        if kind == BaseCommand.MESSAGE:
            resident = self._consumers.get(command.message.consumer_id)
        elif kind == BaseCommand.CLOSE_CONSUMER:
            resident = self._consumers.get(command.close_consumer.consumer_id)
        elif kind == BaseCommand.ACTIVE_CONSUMER_CHANGE:
            resident = self._consumers.get(command.active_consumer_change.consumer_id)
        elif kind == BaseCommand.REACHED_END_OF_TOPIC:
            resident = self._consumers.get(command.reached_end_of_topic.consumer_id)
        elif kind == BaseCommand.SEND_RECEIPT:
            resident = self._producers.get(command.send_receipt.producer_id)
        elif kind == BaseCommand.SEND_ERROR:
            resident = self._producers.get(command.send_error.producer_id)
        elif kind == BaseCommand.CLOSE_PRODUCER:
            resident = self._producers.get(command.close_producer.producer_id)
        elif kind == BaseCommand.TOPIC_MIGRATED:
            migrated = command.topic_migrated.resource_id
            resident = (
                self._consumers.get(migrated) if command.topic_migrated.resource_type else self._producers.get(migrated)
            )
        else:
            log.debug("%s sent %s, which nobody waits for", self.url, command_name(command))
            return
        if resident is not None:
            resident.owner_said(command, payload)
