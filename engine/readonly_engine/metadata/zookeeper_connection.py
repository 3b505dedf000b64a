"""kazoo's connection, with the negotiated session timeout and a method to drop the connection."""

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
"""Session timeout, after which a dead broker's nodes are removed.

It is shorter than Pulsar's 30 s, because a Shared subscription waits for the end of its dead broker's claim. It is longer than an
election of ZooKeeper's leader (a few seconds), and longer than a busy machine delays heartbeats.
"""

_MS_PER_S = 1000


class Connection(ConnectionHandler):  # type: ignore[misc]
    """A connection to ZooKeeper, in threads of kazoo's.

    Attributes:
        session_timeout: timeout of the session, in seconds, as requested or as limited by the server.
    """

    session_timeout = SESSION_TIMEOUT_S

    @classmethod
    def of(cls, client: KazooClient) -> Connection:
        """Replace the connection of a client that has not started, and return the new one."""
        own = client._connection  # noqa: SLF001 - kazoo has no other way to replace it
        made = cls(client, own.retry_sleeper, logger=own.logger, sasl_options=own.sasl_options)
        client._connection = made  # noqa: SLF001
        return made

    def drop(self) -> None:
        """Drop the connection; kazoo connects again, to its next server."""
        connected = self._socket
        if connected is None:
            return
        try:
            connected.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("connection to ZooKeeper was closed already: error=%s", error)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self.session_timeout = answer[0].time_out / _MS_PER_S
        return answer
