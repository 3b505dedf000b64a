"""A client connection that exposes every command: Pulsar's protocol on asyncio, with a future for each request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from readonly_engine.wire.commands import (
    NEWEST_PROTOCOL_VERSION,
    body_of,
    command_name,
    decode_command,
    encode_command,
    has_request_id,
)
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPing,
    CommandPong,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REDIRECTS: Final = 5
_PING: Final = encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
_PONG: Final = encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of a client.

    Attributes:
        answer_s: limit for a connect, and for the answer to a request.
        silence_s: limit without a byte from the broker, after which the connection counts as dead; 0 for none. After half of it
            the client sends a PING.
    """

    answer_s: float = 30.0
    silence_s: float = 0.0


STEADFAST: Final = Patience()


class LinkError(Exception):
    """The broker refused a request, or the connection ended."""


class RawConnection(asyncio.Protocol):
    """One connection.

    Args:
        received: called with each command that answers no request, and with the rest of its frame.
        lost: called when the connection ends.
        patience: its timeouts.
    """

    def __init__(
        self,
        received: Callable[[BaseCommand, bytes], None],
        lost: Callable[[], None],
        patience: Patience = STEADFAST,
    ) -> None:
        self._patience = patience
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._received = received
        self._lost = lost
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, asyncio.Future[BaseCommand]] = {}
        self._last_request = 0
        self.closed = False

    @classmethod
    async def open(
        cls,
        url: str,
        received: Callable[[BaseCommand, bytes], None],
        lost: Callable[[], None],
        patience: Patience = STEADFAST,
    ) -> Self:
        """Connect.

        Raises:
            LinkError: the broker does not answer, or refuses the connection.
        """
        parts = urlsplit(url)
        link = cls(received, lost, patience)
        try:
            async with asyncio.timeout(patience.answer_s):
                await asyncio.get_running_loop().create_connection(lambda: link, parts.hostname, parts.port)
                await link._connected
        except (OSError, TimeoutError) as error:
            link.abort()
            raise LinkError(f"{url}: {error or 'no answer in time'}") from error
        except BaseException:
            link.abort()
            raise
        return link

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Send a request and wait for its answer.

        Raises:
            LinkError: the answer is an error, or there is none in time.
        """
        try:
            async with asyncio.timeout(self._patience.answer_s):
                answer = await self.ask(command)
        except TimeoutError as error:
            waited = f"{self._patience.answer_s:g} s"
            raise LinkError(f"{command_name(command)} was not answered in {waited}") from error
        if answer.type == BaseCommand.ERROR:
            raise LinkError(f"{command_name(command)}: {answer.error.message}")
        return answer

    def ask(self, command: BaseCommand) -> asyncio.Future[BaseCommand]:
        """Send a request. Its answer may be an ERROR; the future raises a LinkError if the connection ends before."""
        self._last_request += 1
        body_of(command).request_id = self._last_request
        answer = self._answers[self._last_request] = asyncio.get_running_loop().create_future()
        self.send(command)
        return answer

    def send(self, command: BaseCommand) -> None:
        """Send a command that has no answer."""
        if self._transport is not None and not self.closed:
            self._transport.write(encode_command(command))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Abort the connection, as the end of the client's process would."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._heard = asyncio.get_running_loop().time()
        self._watch()
        connect = CommandConnect(client_version="churn", protocol_version=NEWEST_PROTOCOL_VERSION)
        self.send(BaseCommand(type=BaseCommand.CONNECT, connect=connect))

    def data_received(self, data: bytes) -> None:
        self._heard = asyncio.get_running_loop().time()
        for frame in self._splitter.receive_data(data):
            command, end = decode_command(frame)
            if command.type == BaseCommand.PING:
                assert self._transport is not None
                self._transport.write(_PONG)
            elif command.type == BaseCommand.CONNECTED:
                if not self._connected.done():
                    self._connected.set_result(None)
            elif not self._settled(command):
                self._received(command, frame[end:])

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        error = LinkError(f"the connection ended: {exc or 'end of stream'}")
        if not self._connected.done():
            self._connected.set_exception(error)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # the future may have no waiter: not a defect
        self._answers.clear()
        self._lost()

    def _watch(self) -> None:
        """Send a PING after some silence of the broker, and abort after too much."""
        half = self._patience.silence_s / 2
        if not half or self._transport is None:
            return
        loop = asyncio.get_running_loop()
        silent = loop.time() - self._heard
        if silent >= 2 * half:
            self.abort()
            return
        if silent >= half:
            self._transport.write(_PING)
        self._timer = loop.call_later(half / 2, self._watch)

    def _settled(self, command: BaseCommand) -> bool:
        if not has_request_id(command):
            return False
        answer = self._answers.pop(int(body_of(command).request_id), None)
        if answer is not None and not answer.done():
            answer.set_result(command)
        return answer is not None


async def find(urls: list[str], topic: str, patience: Patience = STEADFAST) -> str:
    """Look up a topic's broker at the first of these brokers that answers.

    Raises:
        LinkError: no broker answers, or no broker serves the topic.
    """
    error = LinkError("there is no broker for the lookup")
    for url in urls:
        try:
            return await _look_up(url, topic, patience)
        except LinkError as again:
            error = again
    raise error


async def _look_up(url: str, topic: str, patience: Patience) -> str:
    authoritative = False
    for _ in range(MAX_REDIRECTS):
        link = await RawConnection.open(url, lambda _command, _payload: None, lambda: None, patience)
        try:
            lookup = CommandLookupTopic(topic=topic, authoritative=authoritative)
            answer = await link.request(BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=lookup))
        finally:
            link.close()
        response = answer.lookup_topic_response
        if response.response == CommandLookupTopicResponse.Failed:
            raise LinkError(f"{topic}: {response.message}")
        url, authoritative = str(response.broker_service_url), response.authoritative
        if response.response == CommandLookupTopicResponse.Connect:
            return url
    raise LinkError(f"{topic}: more redirects than a cluster can need")
