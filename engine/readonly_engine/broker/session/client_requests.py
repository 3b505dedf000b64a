"""Unanswered requests of one client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from readonly_engine.background import ends
from readonly_engine.broker.session.bounds import MAX_CONCURRENT_CLOSES, MAX_CONCURRENT_REQUESTS, MAX_REQUEST_BYTES
from readonly_engine.broker.session.lookup import answer_lookup
from readonly_engine.broker.session.request_quota import RequestQuota
from readonly_engine.broker.session.requests import (
    refuse_lookup,
    relay_for_consumer,
    relay_to_any_broker,
    relay_to_schema_owner,
)
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.client_commands import CLIENT_COMMANDS, Answerer
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from readonly_engine.broker.session.requests import ConsumerLink
    from readonly_engine.wire.pulsar_pb2 import BaseCommand

_BY_ANSWERER: Final[Mapping[Answerer, Callable[[ConsumerLink, BaseCommand], Coroutine[object, object, None]]]] = {
    Answerer.LOOKUP: answer_lookup,
    Answerer.ANY_BROKER: relay_to_any_broker,
    Answerer.SCHEMA_OWNER: relay_to_schema_owner,
    Answerer.CONSUMER_OWNER: relay_for_consumer,
}

_HANDLERS: Final = {
    kind: _BY_ANSWERER[command.answerer] for kind, command in CLIENT_COMMANDS.items() if command.answerer is not None
}

SERVED_REQUESTS: Final = frozenset(_HANDLERS)
"""Types of the commands that `serve` accepts."""


class ClientRequests:
    """Answers the requests of one client, and limits unanswered ones, as maxConcurrentLookupRequest does on a stock broker.

    Args:
        client: the client's connection.
    """

    __slots__ = ("_client", "_closings", "_quota")

    def __init__(self, client: ConsumerLink) -> None:
        self._client = client
        self._quota = RequestQuota(MAX_CONCURRENT_REQUESTS, MAX_REQUEST_BYTES)
        self._closings = 0

    def serve(self, command: BaseCommand, size: int) -> None:
        """Answer a request in a task; refuse it if too many are unanswered.

        Args:
            command: a command of a type in SERVED_REQUESTS.
            size: size of its frame, in bytes.
        """
        if self.acquire(command, size):
            task = self._client.spawn(_HANDLERS[command.type](self._client, command))
            task.add_done_callback(partial(self.on_answered, size))

    def acquire(self, command: BaseCommand, size: int) -> bool:
        """Count a request and return True; `release` must follow. If it exceeds a limit, refuse it and return False."""
        if not self._quota.acquire(size):
            whose = "this connection"
        elif not self._client.services.requests.acquire(size):
            self._quota.release(size)
            whose = "all clients of this broker"
        else:
            return True
        why = f"too many requests of {whose} are not answered yet; try again"
        refusal = OwnerRefusedError(ServerError.TooManyRequests, why)
        refuse_lookup(self._client, command, body_of(command).request_id, refusal)
        return False

    def release(self, size: int) -> None:
        """Stop counting a request after its answer."""
        self._quota.release(size)
        self._client.services.requests.release(size)

    @ends("_client.abort")
    def on_answered(self, size: int, _task: asyncio.Task[None]) -> None:
        """Stop counting a request after the end of its task."""
        self.release(size)

    def close(self, closing: Coroutine[object, object, None]) -> None:
        """Run the close of a consumer or producer. At MAX_CONCURRENT_CLOSES, pause reading, because a close is never refused."""
        self._closings += 1
        self._client.spawn(closing).add_done_callback(self._closed)
        if self._closings >= MAX_CONCURRENT_CLOSES:
            self._client.pause_reading_for(self, paused=True)

    @ends("_client.abort")
    def _closed(self, _task: asyncio.Task[None]) -> None:
        self._closings -= 1
        if self._closings < MAX_CONCURRENT_CLOSES:
            self._client.pause_reading_for(self, paused=False)
