"""kazoo's connection, with TLS, logins, reasons of failures, the negotiated session timeout, and a method to drop it."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import EXCEPTIONS, AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import AUTH_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL, Auth, Connect

from readonly_engine.metadata.lease import SESSION_TIMEOUT_S
from readonly_engine.metadata.security import OPEN_STORE, LoginScheme, StoreSecurity
from readonly_engine.metadata.zookeeper_refusals import Refusal, refusal_of
from readonly_engine.net.digest_md5 import DigestMd5, LoginError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from readonly_engine.net.digest_md5 import Credentials

log = logging.getLogger(__name__)

REPEAT_S: Final = 60.0
"""Interval in which the log repeats the reason why ZooKeeper refuses the connection."""

_MS_PER_S: Final = 1000
_SASL_HOST: Final = "zk-sasl-md5"
"""Host in the digest of every ZooKeeper (SecurityUtils.createSaslClient)."""


class _Auth(Auth):  # type: ignore[misc]
    """A login, which kazoo writes to its log at the level debug."""

    def __repr__(self) -> str:
        return "Auth(...)"


class _Sasl(SASL):  # type: ignore[misc]
    """A step of a login, for the same reason without its content in texts."""

    def __repr__(self) -> str:
        return "SASL(...)"


class Connection(ConnectionHandler):  # type: ignore[misc]
    """A connection to ZooKeeper, in threads of kazoo's.

    A login is part of the connection: no request is sent before it. kazoo itself reports a session before its login, and gives
    up for good after a refused one.

    Attributes:
        session_timeout: timeout of the session, in seconds, as requested or as limited by the server.
        refusal: reason why the last attempt to connect was refused; None after a success, or without a known reason.
        final_refusals: consecutive attempts that ended with a final refusal.
        refusals: attempts that ended with a final refusal, since the start.
        user: user of the last login; empty for none.
    """

    session_timeout = SESSION_TIMEOUT_S

    def __init__(self, client: KazooClient, retry_sleeper: Any, logger: Any, security: StoreSecurity) -> None:
        super().__init__(client, retry_sleeper, logger=logger)
        self.refusal: Refusal | None = None
        self.final_refusals = 0
        self.refusals = 0
        self.user = ""
        self._security = security
        self._logged: tuple[str, float] = ("", 0.0)

    @classmethod
    def of(cls, client: KazooClient, security: StoreSecurity = OPEN_STORE) -> Connection:
        """Replace the connection of a client that has not started, and return the new one."""
        own = client._connection  # noqa: SLF001 - kazoo has no other way to replace it
        made = cls(client, own.retry_sleeper, own.logger, security)
        client._connection = made  # noqa: SLF001
        return made

    def drop(self) -> None:
        """Drop the connection; kazoo connects again, to its next server."""
        connected = self._socket
        if connected is None:
            return
        try:
            socket.socket.shutdown(
                connected, socket.SHUT_RDWR
            )  # that of a TLS socket changes the state of its reader, too
        except OSError as error:
            log.debug("connection to ZooKeeper was closed already: error=%s", error)

    def refused(self, error: BaseException, where: str = "ZooKeeper") -> None:
        """Record an error of a connection or a request, and log a new reason."""
        self.refusal = found = refusal_of(error, where, self._security)
        if found is None:
            return
        self.refusals += found.final
        self.final_refusals = self.final_refusals + 1 if found.final else 0
        now = time.monotonic()
        if found.text != self._logged[0] or now - self._logged[1] >= REPEAT_S:
            self._logged = found.text, now
            log.warning("ZooKeeper refuses the connection, retrying: error=%s", found.text)

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        try:
            connected = super()._connect(host, hostip, port)
        except Exception as error:
            self.refused(error, f"{host}:{port}")
            if isinstance(error, AuthFailedError | LoginError):
                raise ConnectionDropped("login refused") from error  # kazoo retries, as the password may be changed
            raise
        self.refusal, self.final_refusals = None, 0
        return connected

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self.session_timeout = answer[0].time_out / _MS_PER_S
            login = self._security.login()
            if login is not None:
                self._log_in(login, timeout)
        return answer

    def _log_in(self, login: Credentials, timeout: float) -> None:
        """Log in before kazoo reports the session.

        Raises:
            AuthFailedError: the server refuses the user or the password.
            LoginError: the server does not know this scheme, or not the password.
        """
        self.user = login.user
        if self._security.scheme is LoginScheme.DIGEST:
            super()._invoke(timeout, _Auth(0, "digest", f"{login.user}:{login.password}"), xid=AUTH_XID)
            return
        digest = DigestMd5(login, "zookeeper", _SASL_HOST)
        challenge = self._sasl(b"", 1, timeout)
        if not challenge:
            raise LoginError(
                "the server does not support DIGEST-MD5: its JAAS file needs a section Server, and its zookeeper.fips-mode "
                "must be false"
            )
        answer = digest.answer(challenge)
        try:
            proof = self._sasl(answer, 2, timeout)
        except ConnectionDropped as error:
            raise AuthFailedError("closed at the login") from error
        digest.answer(proof or b"")

    def _sasl(self, token: bytes, xid: int, timeout: float) -> bytes | None:
        self._submit(_Sasl(token), timeout, xid)
        header, body, offset = self._read_header(timeout)
        if header.err:
            raise EXCEPTIONS[header.err]
        challenge: bytes | None = SASL.deserialize(body, offset)[0]
        return challenge
