"""Requests of one owner connection: callbacks, deadlines and the owner's frame limit."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from readonly_engine import tracing
from readonly_engine.background import ends
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.responses import ResponseAggregator
from readonly_engine.wire.acks import split_ids
from readonly_engine.wire.commands import command_name, encode_command
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandError, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.owner.durations import RequestDurations
    from readonly_engine.owner.session import OwnerSession

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 30.0

COMMAND_MARGIN_BYTES = 1024
"""Room for the ids and lengths around a body."""


class OwnerRequests:
    """Sends requests and commands, and passes each answer to the caller of its request.

    The owner would close the shared connection on a frame above its limit. Such a request is refused here instead.

    Args:
        url: the broker's URL, for errors.
        session: numbers the requests, and knows the owner's frame limit.
        durations: counts the answers to `request`.

    Attributes:
        transport: writes to the owner; None before the connection is made, and after its end.
    """

    def __init__(self, url: str, session: OwnerSession, durations: RequestDurations) -> None:
        self.transport: asyncio.Transport | None = None
        self._url = url
        self._session = session
        self._durations = durations
        self._loop = asyncio.get_running_loop()
        self._callbacks: dict[int, Callable[[BaseCommand | None], None]] = {}
        self._deadlines: deque[tuple[float, asyncio.Future[BaseCommand]]] = deque()
        self._deadline_timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        """Return whether any request is unanswered."""
        return bool(self._callbacks)

    @property
    def max_command_bytes(self) -> int:
        """The longest body of a command whose frame is within the owner's limit."""
        return self._session.max_frame_bytes - COMMAND_MARGIN_BYTES

    # Requests that have an answer

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Send a command and wait for its answer, which may be an ERROR.

        Raises:
            OwnerUnavailableError: the connection broke, the consumer was closed, or no answer came in REQUEST_TIMEOUT_S.
        """
        answer: asyncio.Future[BaseCommand] = self._loop.create_future()

        def on_response(response: BaseCommand | None) -> None:
            if answer.done():
                return
            if response is None:
                reason = "the connection broke" if self.transport is None else "the owner closed the consumer"
                answer.set_exception(
                    OwnerUnavailableError(f"{self._url} does not answer {command_name(command)}: {reason}")
                )
            else:
                self._durations.answered(command_name(command), self._loop.time() - begin)
                answer.set_result(response)

        begin = self._loop.time()
        request_id = self.send(*self._session.request(command), on_response)
        self._await_until(self._loop.time() + REQUEST_TIMEOUT_S, answer)
        try:
            response = await answer
            tracing.on_owner_answer(command_name(command), self._loop.time() - begin, self._url, request_id)
            if response.type == BaseCommand.ERROR:
                self._log(response.error, command, request_id)
            return response  # noqa: TRY300
        except TimeoutError as error:
            self._log(None, command, request_id)
            raise OwnerUnavailableError(
                f"{self._url} did not answer {command_name(command)} in {REQUEST_TIMEOUT_S:g} s"
            ) from error
        finally:
            self.forget(request_id)

    def _log(self, refusal: CommandError | None, command: BaseCommand, request_id: int) -> None:
        """Log a failed request by what the owner's log has of it: the address of the connection and the request's id."""
        if not log.isEnabledFor(logging.DEBUG):
            return
        address = None if self.transport is None else self.transport.get_extra_info("sockname")
        log.debug(
            "a request to the owner failed: url=%s local_address=%s command=%s request_id=%d error=%s",
            self._url,
            address,
            command_name(command),
            request_id,
            "no answer in time" if refusal is None else f"{ServerError.Name(refusal.error)}: {refusal.message}",
        )

    def ack_in_parts(self, consumer_id: int, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Ack entries by several commands, each within the owner's limit.

        Args:
            consumer_id: the consumer's id on this connection.
            ids: fields `message_id` of a CommandAck, encoded.
            on_response: gets one answer for all of them, as ResponseAggregator.
        """
        parts = split_ids(ids, self.max_command_bytes)
        answers = ResponseAggregator(len(parts), on_response)
        for part in parts:
            self.send(*self._session.ack(consumer_id, part), answers.on_response)

    def send(self, request_id: int, data: bytes, on_response: Callable[[BaseCommand | None], None]) -> int:
        """Send the frame of a request; return the request's id.

        Args:
            request_id: its id.
            data: the frame.
            on_response: gets the answer, or None if none will come. It is not called before this method returns.
        """
        self._callbacks[request_id] = on_response
        if self.transport is None:
            self._loop.call_soon(self._resolve_later, request_id, None)
        elif not self._fits(data):
            self._session.forget(request_id)
            refusal = CommandError(
                request_id=request_id,
                error=ServerError.NotAllowedError,
                message=self._too_long(len(data) - LENGTH_BYTES),
            )
            self._loop.call_soon(self._resolve_later, request_id, BaseCommand(type=BaseCommand.ERROR, error=refusal))
        else:
            self.transport.write(data)
        return request_id

    def forget(self, request_id: int) -> None:
        """Drop a request and its callback."""
        self._callbacks.pop(request_id, None)
        self._session.forget(request_id)

    @ends("_end")
    def _resolve_later(self, request_id: int, response: BaseCommand | None) -> None:
        self.resolve(request_id, response)

    def _end(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def resolve(self, request_id: int, response: BaseCommand | None) -> None:
        """Pass an answer, or None for none, to the caller of a request."""
        if (
            response is not None
            and response.type == BaseCommand.PRODUCER_SUCCESS
            and not response.producer_success.producer_ready
        ):
            on_response = self._callbacks.get(request_id)
        else:
            on_response = self._callbacks.pop(request_id, None)
        if on_response is not None:
            on_response(response)

    def resolve_all(self) -> None:
        """Answer every request with None: the connection has ended."""
        for request_id in list(self._callbacks):
            self.resolve(request_id, None)

    # Commands that have no answer

    def send_command(self, command: BaseCommand, payload: bytes) -> str:
        """Send a command that has no answer, or whose answer goes to a handler.

        Returns:
            The reason why it was refused: it is above the owner's limit. Empty otherwise.
        """
        data = encode_command(command, payload)
        if not self._fits(data):
            return self._too_long(len(data) - LENGTH_BYTES)
        if self.transport is not None:
            self.transport.write(data)
        return ""

    def forward(self, frame: bytes) -> str:
        """Send a client's frame unchanged, behind its length prefix. Returns as `send_command`."""
        if len(frame) > self._session.max_frame_bytes:
            return self._too_long(len(frame))
        if self.transport is not None:
            self.transport.writelines((len(frame).to_bytes(LENGTH_BYTES, "big"), frame))
        return ""

    def _fits(self, data: bytes) -> bool:
        return len(data) - LENGTH_BYTES <= self._session.max_frame_bytes

    def _too_long(self, size: int) -> str:
        limit = self._session.max_frame_bytes
        return f"a command of {size} bytes; the owner takes {limit} at most. Send less, or raise maxMessageSize there"

    # Deadlines

    def cancel_deadlines(self) -> None:
        """Stop the timer."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()

    def _await_until(self, deadline: float, answer: asyncio.Future[BaseCommand]) -> None:
        """Set TimeoutError on a future at a time. All timeouts are equal, so one timer serves all requests."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1].done():
            deadlines.popleft()
        deadlines.append((deadline, answer))
        if self._deadline_timer is None:
            self._deadline_timer = self._loop.call_at(deadlines[0][0], self._expire)

    @ends("_end")
    def _expire(self) -> None:
        self._deadline_timer = None
        deadlines, now = self._deadlines, self._loop.time()
        while deadlines and (deadlines[0][0] <= now or deadlines[0][1].done()):
            _, answer = deadlines.popleft()
            if not answer.done():
                answer.set_exception(TimeoutError())
        if deadlines:
            self._deadline_timer = self._loop.call_at(deadlines[0][0], self._expire)
