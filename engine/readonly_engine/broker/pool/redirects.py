"""Redirects of consumers to the broker that serves them: the decision (pure) and the commands."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.pool.client_versions import supports_assigned_broker
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer, CommandCloseProducer

if TYPE_CHECKING:
    from collections.abc import Hashable

MIN_REDIRECT_INTERVAL_S = 60.0
"""A client that is redirected and returns sooner cannot reach the other broker. It is relayed instead, to avoid a loop."""

MAX_REMEMBERED = 100_000

QUIET_S = 0.01
"""Time without a request of a consumer before its redirect. Many clients send one right after SUBSCRIBE, such as SEEK.

With 0.2 s, a test's messages came before its redirected consumers had arrived, so others got them.
"""

POLL_INTERVAL_S = 0.005
"""Interval of checks for the first FLOW of a client, which follows its SUBSCRIBE at once."""

MAX_QUIET_WAIT_S = 2.0
"""Limit of the wait for this time."""

TO_POOL: Final = "pool"
TO_OWNER: Final = "owner"


class RedirectHistory:
    """Keeps the times of redirects by client.

    Attributes:
        redirected: number of redirected consumers, by where to: TO_POOL or TO_OWNER.
    """

    def __init__(self) -> None:
        self.redirected = {TO_POOL: 0, TO_OWNER: 0}
        self._last: OrderedDict[Hashable, float] = OrderedDict()

    def allow(self, client_version: str, client_key: Hashable, now: float, to: str = TO_POOL) -> bool:
        """Return whether to redirect a consumer, and count it if so.

        Args:
            client_version: the client's version from CONNECT.
            client_key: identifies the consumer when it returns.
            now: the time.
            to: where to.
        """
        if not self.would_allow(client_version, client_key, now):
            return False
        self._last[client_key] = now
        self._last.move_to_end(client_key)
        if len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)
        self.redirected[to] += 1
        return True

    def would_allow(self, client_version: str, client_key: Hashable, now: float) -> bool:
        """Return the same as `allow`, without counting it."""
        if not supports_assigned_broker(client_version):
            return False
        last = self._last.get(client_key)
        return last is None or now - last >= MIN_REDIRECT_INTERVAL_S


class PendingRedirect:
    """Decides when a relayed consumer is redirected, and whether.

    It gets no messages until then: they would be delivered again. A request that arrives after the redirect fails, because the
    consumer is gone here. A client that asks for one message at a time is never redirected: if it is waiting for a message,
    older clients do not ask again after the redirect (seen: C++ 3.5.1, Java 4.0.0 and Go 0.14.0, without a receiver queue).

    Args:
        begin: time of the answer to SUBSCRIBE.

    Attributes:
        requested_at: time of the answer to the client's last request; infinity while one is unanswered.
        permits: permits of the client so far.
    """

    __slots__ = ("_end", "permits", "requested_at")

    def __init__(self, begin: float) -> None:
        self.requested_at = begin
        self.permits = 0
        self._end = begin + MAX_QUIET_WAIT_S

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next decision; 0 or less to redirect the consumer now; None to relay it forever."""
        if self.permits == 1:
            return None
        if not self.permits:
            return POLL_INTERVAL_S if now < self._end else None
        return min(self.requested_at + QUIET_S, self._end) - now


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
