"""Changes of a subscription that has consumers. The stock client for Python would subscribe again after a SEEK."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.cursors.local_requests import LocalRequest
from readonly_engine.broker.cursors.owner_access import NoEvents
from readonly_engine.config.kinds import split_urls
from readonly_engine.net.tls import ClientTls, TlsError
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.owner.identity import ANONYMOUS, Identity
from readonly_engine.subscriptions.login import access_token, oauth2_login
from readonly_engine.tool.errors import ToolError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.subscriptions.settings import ToolConfig

_TYPES: Final = (
    CommandSubscribe.Exclusive,
    CommandSubscribe.Shared,
    CommandSubscribe.Failover,
    CommandSubscribe.Key_Shared,
)

CONSUMER_NAME: Final = "pulsar-readonly-subscriptions"


class ForcedChanges:
    """Moves and deletes local subscriptions that may have consumers.

    Args:
        directory: connections to the pool.
        identity: the user's credentials.
    """

    def __init__(self, directory: OwnerDirectory, identity: Identity) -> None:
        self._directory = directory
        self._identity = identity

    async def delete(self, topic: TopicName, subscription: str) -> None:
        """Delete a subscription; the pool closes its consumers.

        Raises:
            RelayError: the pool or the owner refuses it, or does not answer.
        """
        unsubscribe = CommandUnsubscribe(force=True)
        await self._request(topic, subscription, BaseCommand(type=BaseCommand.UNSUBSCRIBE, unsubscribe=unsubscribe))

    async def seek(self, topic: TopicName, subscription: str, to: Position | int) -> None:
        """Move a cursor; the consumers subscribe again.

        Args:
            topic: a topic without partitions, or a partition.
            subscription: name of the subscription.
            to: the next message to deliver, or the time of the first one, in ms.

        Raises:
            RelayError: the pool or the owner refuses it, or does not answer.
        """
        seek = CommandSeek()
        if isinstance(to, Position):
            seek.message_id.ledger_id, seek.message_id.entry_id = to
        else:
            seek.message_publish_time = to
        await self._request(topic, subscription, BaseCommand(type=BaseCommand.SEEK, seek=seek))

    async def _request(self, topic: TopicName, subscription: str, command: BaseCommand) -> None:
        consumer = await self._join(topic, subscription)
        try:
            answer = await consumer.request(command)
        finally:
            await consumer.close()
        if answer.type == BaseCommand.ERROR:
            raise OwnerRefusedError(answer.error.error, answer.error.message)

    async def _join(self, topic: TopicName, subscription: str) -> OwnerConsumer:
        for kind in _TYPES:
            subscribe = CommandSubscribe(
                topic=str(topic),
                subscription=subscription,
                sub_type=kind,
                consumer_id=0,
                request_id=0,
                consumer_name=CONSUMER_NAME,
                force_topic_creation=False,
            )
            subscribe.metadata.add(key=LocalRequest.FORCE.value, value="true")
            consumer = OwnerConsumer(self._directory, self._identity, subscribe, NoEvents(), zero_permit=False)
            try:
                await consumer.subscribe()
            except OwnerRefusedError as error:
                if error.code != ServerError.ConsumerBusy:
                    raise
                reason = str(error)
            else:
                return consumer
        raise ToolError(f"{topic}: {reason}; try again")


@asynccontextmanager
async def forced_changes(config: ToolConfig) -> AsyncIterator[ForcedChanges]:
    """Make connections to the pool.

    Args:
        config: the settings.

    Raises:
        ToolError: a file of the settings cannot be used.
    """
    path = config.user_token_file
    async with oauth2_login(config) as login:
        try:
            identity = ANONYMOUS if path is None else Identity("token", path.read_bytes().strip())
            tls = None if config.pool_tls is None else ClientTls(config.pool_tls)
        except TlsError as error:
            raise ToolError(f"--{error}") from error
        except OSError as error:
            raise ToolError(f"--pool-token-file {path}: {error}") from error
        if path is None and login is not None:
            identity = Identity("token", access_token(login).encode())
        directory = OwnerDirectory(*split_urls(config.pool_service_url), tls=tls)
        try:
            yield ForcedChanges(directory, identity)
        finally:
            directory.close()
