"""kazoo's connection, with what it keeps to itself: the session timeout as negotiated, and a way to give the connection up."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Any

from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect

if TYPE_CHECKING:
    from kazoo.client import KazooClient

log = logging.getLogger(__name__)

SESSION_TIMEOUT_S = 10.0
"""How long a dead broker's nodes stay.

Shorter than Pulsar's 30 s, because a Shared subscription waits for the end of its dead broker's claim; longer than an election of
ZooKeeper's leader takes (a few seconds) and than a busy machine may keep heartbeats waiting.
"""

_MS_PER_S = 1000


class Connection(ConnectionHandler):  # type: ignore[misc]
    """A connection to ZooKeeper, in threads of kazoo's.

    Attributes:
        session_timeout: of the session, in seconds: what was asked for, or what the server allows.
    """

    session_timeout = SESSION_TIMEOUT_S

    @classmethod
    def of(cls, client: KazooClient) -> Connection:
        """A client's connection, which is not started yet, in the place of its own."""
        own = client._connection  # noqa: SLF001 - kazoo has no other way to replace it
        made = cls(client, own.retry_sleeper, logger=own.logger, sasl_options=own.sasl_options)
        client._connection = made  # noqa: SLF001
        return made

    def drop(self) -> None:
        """Give the connection up: kazoo connects again, to the next server that it knows."""
        connected = self._socket
        if connected is None:
            return
        try:
            connected.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("the connection to ZooKeeper has ended already: %s", error)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self.session_timeout = answer[0].time_out / _MS_PER_S
        return answer
