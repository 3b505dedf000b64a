"""The consumers of one client, and those that are being created."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from readonly_engine import tracing
from readonly_engine.background import ends
from readonly_engine.broker.consumer.admission import admit
from readonly_engine.broker.consumer.client_link import ClientLink
from readonly_engine.broker.consumer.services import Services
from readonly_engine.broker.session.bounds import MAX_BROKER_SUBSCRIBES, MAX_CONCURRENT_SUBSCRIBES, MAX_REQUEST_BYTES
from readonly_engine.metadata.errors import MetadataError, TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError, RelayError
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.consumer.client_link import LinkedConsumer
    from readonly_engine.broker.session.closing import ClosingConsumers
    from readonly_engine.broker.session.subscribe_refusals import SubscribeRefusals
    from readonly_engine.metadata.topic_name import TopicName


class SubscribeServices(Services, Protocol):
    """The broker, with its count of SUBSCRIBEs.

    Attributes:
        subscribing: number of SUBSCRIBEs of all clients in admission.
        subscribe_refusals: counts and logs those that are refused.
        closing_consumers: closes those of lost clients.
    """

    subscribing: int
    subscribe_refusals: SubscribeRefusals
    closing_consumers: ClosingConsumers


class SubscribingClient(ClientLink, Protocol):
    """A client's connection, as its SUBSCRIBEs use it."""

    @property
    def services(self) -> SubscribeServices:
        """The shared parts of the broker."""

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or closing."""


class ClientConsumers:
    """Creates and closes the consumers of one client.

    Args:
        client: the client's connection.

    Attributes:
        by_id: the consumers by the client's ids.
    """

    __slots__ = ("_bytes", "_client", "_queued", "_subscribing", "by_id")

    def __init__(self, client: SubscribingClient) -> None:
        self._client = client
        self.by_id: dict[int, ClientConsumer] = {}
        self._subscribing: dict[int, asyncio.Task[None]] = {}
        # Frames of SUBSCRIBEs, by consumer id. The first of an ordered dict is found at once, also after many removals.
        self._queued: OrderedDict[int, bytes] | None = None
        self._bytes = 0  # of the frames in _subscribing and _queued

    def subscribe(self, command: BaseCommand, frame: bytes) -> None:
        """Answer SUBSCRIBE, or queue it while too many are in admission (MAX_CONCURRENT_SUBSCRIBES, MAX_BROKER_SUBSCRIBES).

        Args:
            command: the command.
            frame: its frame.
        """
        subscribe = command.subscribe
        consumer_id, request_id = subscribe.consumer_id, subscribe.request_id
        if consumer_id in self._subscribing or consumer_id in (self._queued or ()):
            self._refuse(subscribe, ServerError.ServiceNotReady, "the consumer is being created already")
            return
        if consumer_id in self.by_id:
            self._client.succeed(request_id)
            return
        try:
            topic = parse_topic_name(subscribe.topic)
        except TopicNameError as error:
            self._refuse(subscribe, ServerError.InvalidTopicName, str(error))
            return
        if self._client.services.draining:
            self._refuse_draining(subscribe)
            return
        if self._bytes + len(frame) > MAX_REQUEST_BYTES:
            why = f"unanswered SUBSCRIBEs of this connection have {self._bytes} bytes; try again"
            self._refuse(subscribe, ServerError.ServiceNotReady, why)
            return
        self._bytes += len(frame)
        if not self._may_subscribe:
            if self._queued is None:
                self._queued = OrderedDict()
            self._queued[consumer_id] = frame
            return
        self._client.services.subscribing += 1
        task = self._client.spawn(self._admit(topic, subscribe))
        self._subscribing[consumer_id] = task
        task.add_done_callback(lambda _: self._subscribe_done(consumer_id, len(frame)))

    @property
    def _may_subscribe(self) -> bool:
        return (
            len(self._subscribing) < MAX_CONCURRENT_SUBSCRIBES
            or self._client.services.subscribing < MAX_BROKER_SUBSCRIBES
        )

    @ends("_client.abort")
    def _subscribe_done(self, consumer_id: int, size: int) -> None:
        """Start queued SUBSCRIBEs after the end of one admission."""
        self._client.services.subscribing -= 1
        self._bytes -= size
        self._subscribing.pop(consumer_id, None)
        if not self._subscribing:
            self._subscribing.clear()  # frees the table, which a pop does not
        while self._queued and not self._client.closed and self._may_subscribe:
            frame = self._remove_queued(next(iter(self._queued)))
            self.subscribe(decode_command(frame)[0], frame)

    def cancel_subscribes(self) -> int:
        """Refuse all unanswered SUBSCRIBEs, because the broker leaves the pool; return their number."""
        cancelled = len(self._subscribing) + len(self._queued or ())
        for task in list(self._subscribing.values()):
            task.cancel()
        return cancelled

    def _refuse_draining(self, subscribe: CommandSubscribe) -> None:
        self._refuse(subscribe, ServerError.ServiceNotReady, "this broker leaves the pool; look the topic up again")

    def _refuse(self, subscribe: CommandSubscribe, code: ServerError, reason: str) -> None:
        self._client.services.subscribe_refusals.add(subscribe.topic, subscribe.subscription, code, reason)
        self._client.refuse(subscribe.request_id, code, reason)

    def _remove_queued(self, consumer_id: int) -> bytes:
        if self._queued is None:
            return b""
        frame = self._queued.pop(consumer_id, b"")
        self._bytes -= len(frame)
        if not self._queued:
            self._queued = None
        return frame

    async def _admit(self, topic: TopicName, subscribe: CommandSubscribe) -> None:
        about: dict[str, str | int] = {
            "pulsar.topic": subscribe.topic,
            "pulsar.subscription": subscribe.subscription,
            "pulsar.request_id": subscribe.request_id,
            "client.address": self._client.peer,
        }
        try:
            with tracing.span("SUBSCRIBE", about):
                consumer, answer = await admit(self._client, topic, subscribe)
        except asyncio.CancelledError:
            if self._client.services.draining:
                self._refuse_draining(subscribe)
            raise
        except RelayError as error:
            if isinstance(error, OwnerUnavailableError) and error.refused:
                self._client.services.note_refused(error.refused)
            self._refuse(subscribe, error.code, str(error))
        except MetadataError as error:
            self._refuse(subscribe, ServerError.MetadataError, str(error))
        else:
            if self._client.closed:
                self.drop(consumer)
                return
            self.by_id[consumer.consumer_id] = consumer
            self._client.respond(answer, subscribe.request_id)
            consumer.on_answered()

    async def close(self, command: BaseCommand) -> None:
        """Answer CLOSE_CONSUMER."""
        close = command.close_consumer
        request_id = close.request_id
        self._remove_queued(close.consumer_id)
        subscribing = self._subscribing.get(close.consumer_id)
        if subscribing is not None:
            subscribing.cancel()
        consumer = self.by_id.get(close.consumer_id)
        answer = None
        if consumer is not None:
            if close.assigned_broker_service_url:
                consumer.expect_return()
            self._forget(consumer)
            answer = await consumer.close(command)
        if answer is None:
            self._client.succeed(request_id)
        else:
            self._client.respond(answer, request_id)

    def close_all(self) -> None:
        """Close all consumers on their owners after the client has disconnected."""
        consumers = list(self.by_id.values())
        self.by_id.clear()
        self._client.services.closing_consumers.close(consumers)

    def drop(self, consumer: LinkedConsumer) -> None:
        """Remove a consumer and close it on the owner. The caller sends CLOSE_CONSUMER to the client if necessary."""
        self._forget(consumer)
        self._client.services.spawn(consumer.close())

    def _forget(self, consumer: LinkedConsumer) -> None:
        if self.by_id.get(consumer.consumer_id) is consumer:
            del self.by_id[consumer.consumer_id]
        consumer.unregister()
