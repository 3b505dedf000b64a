"""Redirects of consumers to the broker that serves them: the decision (pure) and the commands."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from readonly_engine.broker.pool.client_versions import supports_assigned_broker
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer, CommandCloseProducer

if TYPE_CHECKING:
    from collections.abc import Hashable

MIN_REDIRECT_INTERVAL_S = 60.0
"""A client that is redirected and returns sooner cannot reach the other broker. It is relayed instead, to avoid a loop."""

MAX_REMEMBERED = 100_000


class RedirectHistory:
    """Keeps the times of redirects by client.

    Attributes:
        redirected: number of redirected consumers.
    """

    def __init__(self) -> None:
        self.redirected = 0
        self._last: OrderedDict[Hashable, float] = OrderedDict()

    def allow(self, client_version: str, client_key: Hashable, now: float) -> bool:
        """Return whether to redirect a consumer, and count it if so.

        Args:
            client_version: the client's version from CONNECT.
            client_key: identifies the consumer when it returns.
            now: the time.
        """
        if not supports_assigned_broker(client_version):
            return False
        last = self._last.get(client_key)
        if last is not None and now - last < MIN_REDIRECT_INTERVAL_S:
            return False
        self._last[client_key] = now
        self._last.move_to_end(client_key)
        if len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)
        self.redirected += 1
        return True


def close_producer(producer_id: int) -> bytes:
    """Return the frame CLOSE_PRODUCER of a broker; the client looks the topic up again."""
    close = CommandCloseProducer(producer_id=producer_id, request_id=-1)
    return encode_command(BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close))


def close_consumer(consumer_id: int, url: str = "", url_tls: str = "") -> bytes:
    """Return the frame CLOSE_CONSUMER of a broker. With a URL, the client connects there without a lookup (PIP-307)."""
    close = CommandCloseConsumer(consumer_id=consumer_id, request_id=-1)
    if url:
        close.assigned_broker_service_url = url
    if url_tls:
        close.assigned_broker_service_url_tls = url_tls
    return encode_command(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close))
