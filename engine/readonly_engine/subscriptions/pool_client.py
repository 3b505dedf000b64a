"""Consumers that send a request through the pool: they get no permits, receive no messages and ack none."""

from __future__ import annotations

import asyncio
import re
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pulsar
from pulsar.asyncio import PulsarException

from readonly_engine.broker.cursors.client import file_token, stock_client
from readonly_engine.subscriptions.login import access_token, oauth2_login
from readonly_engine.tool.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator

    from pulsar.asyncio import Client, Consumer

    from readonly_engine.broker.cursors.local_requests import LocalRequest
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.subscriptions.settings import ToolConfig

T = TypeVar("T")

CONNECT_TIMEOUT_S: Final = 20.0
"""Limit of the time until a broker of the pool answers."""

REQUEST_TIMEOUT_S: Final = 300
"""Limit of a request, for which the client repeats it. An export of very many acks takes longest."""

NO_PERMITS: Final = 0
"""Size of the receiver queue: the client sends FLOW only when the application receives."""

_REASON: Final = re.compile(r"Received error response from server: \w+ \((?P<text>.*)\) -- req_id: \d+")


class ConsumersConnectedError(ToolError):
    """The subscription has consumers."""


class ClientLog:
    """The log of the stock clients of this process, in a file. It has the brokers' reasons, which the exceptions lack.

    A logger in Python does not do: threads of the client may call it while the interpreter ends.

    Args:
        path: path of the file.

    Attributes:
        logger: the client's argument `logger`. The client has one for the whole process, that of its first instance.
    """

    def __init__(self, path: Path) -> None:
        self.logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(path))
        self._path = path
        self._begin = 0

    def begin(self) -> None:
        """Forget the reasons so far."""
        self._begin = self._path.stat().st_size

    @property
    def reason(self) -> str:
        """The last reason; empty without one."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            found = _REASON.findall(file.read().decode(errors="replace"))
        return found[-1] if found else ""


@contextmanager
def client_log() -> Iterator[ClientLog]:
    """Make the log; its file is deleted at the end."""
    with tempfile.NamedTemporaryFile(prefix="pulsar-readonly-", suffix=".log") as file:
        yield ClientLog(Path(file.name))


class PoolClient:
    """A client of the pool.

    Args:
        client: the stock client.
        url: its service URL, for errors.
        log: the client's log.
    """

    def __init__(self, client: Client, url: str, log: ClientLog) -> None:
        self._client = client
        self._url = url
        self._log = log

    async def check_reachable(self, topic: TopicName) -> None:
        """Check that the pool answers, and accepts the token.

        Raises:
            ToolError: it does not.
        """
        self._log.begin()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._client.get_topic_partitions(str(topic))
        except (PulsarException, TimeoutError) as error:
            raise ToolError(
                f"--pool-service-url {self._url} does not answer for {topic}: {self._reason(error)}"
            ) from error

    @asynccontextmanager
    async def consumer(self, topic: TopicName, subscription: str, request: LocalRequest) -> AsyncIterator[Consumer]:
        """Subscribe as the only consumer.

        Args:
            topic: a topic without partitions, or a partition.
            subscription: name of the subscription.
            request: the request to the pool.

        Raises:
            ToolError: the pool or the owner refuses the consumer.
        """
        subscribing = self._client.subscribe(
            str(topic),
            subscription,
            consumer_type=pulsar.ConsumerType.Exclusive,
            receiver_queue_size=NO_PERMITS,
            initial_position=pulsar.InitialPosition.Earliest,
            properties={request.value: "true"},
        )
        consumer: Consumer = await self.answer(topic, subscribing)
        try:
            yield consumer
        finally:
            with suppress(PulsarException):  # UNSUBSCRIBE has closed it
                await consumer.close()

    async def answer(self, topic: TopicName, request: Awaitable[T]) -> T:
        """Wait for the answer to a request.

        Raises:
            ToolError: it is refused, or not answered.
        """
        self._log.begin()
        try:
            return await request
        except PulsarException as error:
            if error.error() == pulsar.Result.ConsumerBusy:
                raise ConsumersConnectedError(f"{topic}: {_remedy(self._reason(error))}") from error
            raise ToolError(f"{topic}: {self._reason(error)}") from error

    def _reason(self, error: Exception) -> str:
        if self._log.reason:
            return self._log.reason
        return error.error().name if isinstance(error, PulsarException) else "no answer"


@asynccontextmanager
async def pool_client(config: ToolConfig, log: ClientLog) -> AsyncIterator[PoolClient]:
    """Make a client of the pool.

    Args:
        config: the settings.
        log: the log of stock clients.

    Raises:
        ToolError: the URL of the pool is missing, or the token cannot be read.
    """
    if not config.pool_service_url:
        raise ToolError("--pool-service-url is missing: give the service URL of the pool, pulsar://HOST:PORT")
    _check_token(config.pool_token_file)
    async with oauth2_login(config) as login:
        path = config.user_token_file
        if path is None and login is not None:
            access_token(login)
        client = stock_client(
            config.pool_service_url,
            config.pool_tls,
            login.current if path is None and login is not None else file_token(path),
            logger=log.logger,
            operation_timeout_seconds=REQUEST_TIMEOUT_S,
        )
        try:
            yield PoolClient(client, config.pool_service_url, log)
        finally:
            await client.close()


def _remedy(reason: str) -> str:
    remedy = "close them, then try again"
    return reason if reason.endswith(remedy) else f"the subscription has consumers ({reason}): {remedy}"


def _check_token(path: Path | None) -> None:
    try:
        if path is not None and not path.read_text(encoding="ascii").strip():
            raise ToolError(f"--pool-token-file {path} is empty: expected one token")
    except (OSError, ValueError) as error:
        raise ToolError(f"--pool-token-file {path}: {error}") from error
