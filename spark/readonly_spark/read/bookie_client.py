"""Blocking reads of ledgers for one task, with pipelined requests: the sockets around `fetch`.

Nothing runs between two calls. While the task decodes, replies wait in the receive buffers of the sockets, which hold all
requested bytes. The time between two calls does not count as a bookie's.
"""

from __future__ import annotations

import logging
import random
import selectors
import socket
import ssl
import time
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from readonly_engine.bookkeeper.connect import CONNECT_TIMEOUT_S, OPEN_BOOKIES
from readonly_engine.bookkeeper.errors import BookieUnavailableError, failed_connection, is_refusal
from readonly_engine.bookkeeper.login import SaslLogin, StartTls
from readonly_engine.bookkeeper.pipeline import READ_TIMEOUT_S
from readonly_engine.bookkeeper.replicas import ReplicaOrder
from readonly_engine.bookkeeper.session import BookieSession
from readonly_engine.bookkeeper.session_v2 import BatchSession
from readonly_engine.wire.bookie_v2 import decode_batch
from readonly_engine.wire.bookkeeper_pb2 import EOK, EUA
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import decode_entry
from readonly_engine.wire.errors import DigestMismatchError, WireError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, FrameSplitter

from readonly_spark.read.fetch import PART_BYTES, Fetch
from readonly_spark.read.frame_buffers import PROCESS_BUFFERS
from readonly_spark.read.rate_limit import RateLimiter
from readonly_spark.read.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from readonly_engine.bookkeeper.connect import BookieSecurity
    from readonly_engine.bookkeeper.login import Exchange
    from readonly_engine.wire.digest import Digest
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.ledgers import LedgerMetadata

    from readonly_spark.read.fetch import Request

log = logging.getLogger(__name__)

MAX_BATCH_REFUSALS: Final = 2
"""Connections that a bookie closes on a batch read until it counts as one without batch reads (BookKeeper before 4.17)."""

MAX_WAIT_S: Final = 1.0
"""Maximum time between two checks of deadlines."""

_RECEIVE_BYTES: Final = 1 << 18
_SEND_ROOM: Final = 1 << 20


class _Connection:
    """One socket to a bookie, for batch reads (v2) or single entries (v3); a bookie accepts only one of them per connection."""

    def __init__(self, bookie_id: str, sock: socket.socket, now: float, *, batches: bool) -> None:
        self.bookie_id = bookie_id
        self.sock = sock
        self.batches = BatchSession() if batches else None
        self.singles = None if batches else BookieSession()
        self.tokens: dict[int, int] = {}  # the session's request id to the token
        self.received_at = now
        self._unsent = b""

    def send(self, data: bytes) -> None:
        """Send, or keep the data until the socket has room. Requests are small, so it nearly always has."""
        self._unsent += data
        try:
            while self._unsent:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            if len(self._unsent) > _SEND_ROOM:
                raise OSError("the bookie does not read requests") from None

    @property
    def unsent(self) -> bool:
        """Whether data is left to send."""
        return bool(self._unsent)


class BookieClient:
    """Read entries from bookies.

    Args:
        addresses: host and port of each bookie.
        security: TLS and login.
        in_flight: concurrent batch reads of about 1 MiB.
        bytes_per_second: the rate limit; None for no limit.
    """

    def __init__(
        self,
        addresses: Mapping[str, tuple[str, int]],
        *,
        security: BookieSecurity = OPEN_BOOKIES,
        in_flight: int = 4,
        bytes_per_second: float | None = None,
    ) -> None:
        self._addresses = addresses
        self._security = security
        self._in_flight = in_flight
        self._rate_limiter = None if bytes_per_second is None else RateLimiter(bytes_per_second, time.monotonic())
        self._clock = Stopwatch()
        self._choice = ReplicaOrder("", random.random)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[tuple[str, bool], _Connection] = {}
        self._refusals: dict[str, int] = {}
        self._numbers = count(1)
        self._pending: dict[int, tuple[Fetch, Digest, Request]] = {}

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections.values()):
            self._selector.unregister(connection.sock)
            connection.sock.close()
        self._connections.clear()
        self._selector.close()

    def read(
        self, ledger_id: int, metadata: LedgerMetadata, first: int, last: int, entry_bytes: float
    ) -> Iterator[list[Entry]]:
        """Yield the verified entries from `first` to `last`, both included, in order, in lists of about 1 MiB.

        Payloads are bytes or views of a buffer that is reused after its last view is gone.

        Args:
            ledger_id: the ledger.
            metadata: its bookies.
            first: the first entry.
            last: the last entry; it must be confirmed.
            entry_bytes: the estimated average size of an entry.

        Raises:
            NoSuchLedgerError: the ledger was deleted.
            NoSuchEntryError: no replica has an entry.
            ReadFailedError: all replicas of an entry failed.
        """
        digest = digest_for(metadata.digest_type, metadata.password)
        fetch = Fetch(
            ledger_id,
            metadata,
            first,
            last,
            entry_bytes=entry_bytes,
            in_flight=self._in_flight,
            choice=self._choice,
            supports_batches=self._supports_batches,
            tokens=lambda: next(self._numbers),
        )
        self._clock.start()
        try:
            while not fetch.done:
                for request in fetch.requests(self._clock.now()):
                    self._send(fetch, digest, request)
                entries = fetch.take()
                if entries is None:
                    self._wait(fetch)
                    continue
                self._clock.stop()
                if self._rate_limiter is not None:
                    time.sleep(
                        self._rate_limiter.record(sum(len(entry.payload) for entry in entries), time.monotonic())
                    )
                yield entries
                self._clock.start()
                self._receive(0.0)
        finally:
            self._clock.stop()
            self._pending = {token: pending for token, pending in self._pending.items() if pending[0] is not fetch}

    def _supports_batches(self, bookie_id: str) -> bool:
        return self._refusals.get(bookie_id, 0) < MAX_BATCH_REFUSALS

    # Sending

    def _send(self, fetch: Fetch, digest: Digest, request: Request) -> None:
        now = self._clock.now()
        try:
            connection = self._connected(request.bookie_id, batches=request.batch)
            deadline = now + READ_TIMEOUT_S
            if connection.batches is not None:
                number, data = connection.batches.batch_read(
                    fetch.ledger_id, request.first, request.max_entries, 2 * PART_BYTES, deadline
                )
            else:
                assert connection.singles is not None
                number, data = connection.singles.read_entry(fetch.ledger_id, request.first, deadline)
            connection.tokens[number] = request.token
            self._pending[request.token] = (fetch, digest, request)
            connection.send(data)
            self._update_events(connection)
        except BookieUnavailableError as error:
            fetch.on_failure(request.token, EUA if error.refused else None, str(error), now)
        except OSError as error:
            self._disconnect(connection, str(error), EUA if is_refusal(error) else None)

    def _connected(self, bookie_id: str, *, batches: bool) -> _Connection:
        connection = self._connections.get((bookie_id, batches))
        if connection is None:
            address = self._addresses.get(bookie_id)
            if address is None:
                raise BookieUnavailableError("the bookie was not registered when the task was planned")
            try:
                sock = _connect(address, self._security)
            except (OSError, WireError, BookieUnavailableError) as error:
                host, port = address
                message = f"{host}:{port} cannot be reached: {str(error) or 'no answer'}"
                raise failed_connection(message, error) from error
            connection = self._connections[bookie_id, batches] = _Connection(
                bookie_id, sock, self._clock.now(), batches=batches
            )
            self._selector.register(sock, selectors.EVENT_READ, connection)
        return connection

    def _update_events(self, connection: _Connection) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        if self._selector.get_key(connection.sock).events != events:
            self._selector.modify(connection.sock, events, connection)

    # Receiving

    def _wait(self, fetch: Fetch) -> None:
        now = self._clock.now()
        self._receive(min(max(fetch.next_timer() - now, 0.0), MAX_WAIT_S))
        now = self._clock.now()
        for connection in list(self._connections.values()):
            session = connection.batches or connection.singles
            assert session is not None
            late = session.on_timer(now)
            for number in late:
                self._fail(connection.tokens.pop(number), None, "no answer in time")
            if late and now - connection.received_at > READ_TIMEOUT_S:
                self._disconnect(connection, "no data received")

    def _receive(self, timeout: float) -> None:
        """Handle received data; wait up to `timeout` seconds for some."""
        for key, _ in self._selector.select(timeout):
            connection: _Connection = key.data
            try:
                if connection.unsent:
                    connection.send(b"")
                    self._update_events(connection)
                self._drain(connection)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            except WireError as error:
                self._disconnect(connection, str(error))
            except OSError as error:
                self._disconnect(connection, error.strerror or str(error), EUA if is_refusal(error) else None)

    def _drain(self, connection: _Connection) -> None:
        """Receive until no data is left; the socket raises then."""
        while True:
            if connection.batches is not None:
                received = connection.sock.recv_into(connection.batches.buffer())
                if not received:
                    raise OSError("end of stream")
                connection.received_at = self._clock.now()
                replies = connection.batches.received(received)
                for header, frame in replies:
                    self._on_batch_reply(connection.tokens.pop(header.request_id), header.status, frame)
                    self._refusals.pop(connection.bookie_id, None)
                if replies:
                    PROCESS_BUFFERS.keep(cast("bytearray", replies[0].frame.obj))
                    connection.batches.leave(PROCESS_BUFFERS.take())
            else:
                assert connection.singles is not None
                data = connection.sock.recv(_RECEIVE_BYTES)
                if not data:
                    raise OSError("end of stream")
                connection.received_at = self._clock.now()
                for number, reply in connection.singles.receive_data(data):
                    self._on_entry_reply(connection.tokens.pop(number), reply.status, reply.body)

    def _on_batch_reply(self, token: int, status: int, frame: memoryview) -> None:
        pending = self._pending.pop(token, None)
        if pending is None:
            return  # no longer requested: do not even decode it
        fetch, digest, request = pending
        if status != EOK:
            fetch.on_failure(token, status, _status_text(status), self._clock.now())
            return
        entries, damage = decode_batch(frame, digest, fetch.ledger_id, request.first, views=True)
        if damage is not None:
            log.warning("bookie %s: %s", request.bookie_id, damage)
        if entries:
            fetch.on_entries(token, entries, self._clock.now())
        else:
            fetch.on_failure(token, None, str(damage or "empty batch"), self._clock.now())

    def _on_entry_reply(self, token: int, status: int, body: bytes) -> None:
        pending = self._pending.pop(token, None)
        if pending is None:
            return
        fetch, digest, request = pending
        if status != EOK:
            fetch.on_failure(token, status, _status_text(status), self._clock.now())
            return
        try:
            entry = decode_entry(body, digest, fetch.ledger_id, request.first)
        except DigestMismatchError as damage:
            log.warning("bookie %s: %s", request.bookie_id, damage)
            fetch.on_failure(token, None, str(damage), self._clock.now())
        else:
            fetch.on_entries(token, [entry], self._clock.now())

    def _fail(self, token: int, status: int | None, reason: str) -> None:
        pending = self._pending.pop(token, None)
        if pending is not None:
            pending[0].on_failure(token, status, reason, self._clock.now())

    def _disconnect(self, connection: _Connection, reason: str, status: int | None = None) -> None:
        """Close a connection and fail its requests, which go to other replicas; the status is EUA after a refusal."""
        batches = connection.batches is not None
        if self._connections.get((connection.bookie_id, batches)) is not connection:
            return
        del self._connections[connection.bookie_id, batches]
        self._selector.unregister(connection.sock)
        connection.sock.close()
        if connection.batches is not None and not connection.batches.answered and connection.tokens:
            self._refusals[connection.bookie_id] = self._refusals.get(connection.bookie_id, 0) + 1
        log.info("lost the connection to bookie %s: %s", connection.bookie_id, reason)
        for token in connection.tokens.values():
            self._fail(token, status, reason)


def _status_text(status: int) -> str:
    remedy = ": it serves only clients that log in; give bookieLoginFile" if status == EUA else ""
    return f"status {status}{remedy}"


def _connect(address: tuple[str, int], security: BookieSecurity) -> socket.socket:
    """Connect a non-blocking socket, after START_TLS, the TLS handshake and the login.

    Raises:
        OSError: the connection failed or timed out.
        WireError: a reply is malformed.
        BookieUnavailableError: the bookie refuses TLS or the login.
    """
    tls, login = security.context(), security.login()
    sock = socket.create_connection(address, CONNECT_TIMEOUT_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            _complete(StartTls(), sock)
            sock = tls.wrap_socket(sock, server_hostname=address[0])
        if login is not None:
            _complete(login, sock)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _complete(exchange: Exchange, sock: socket.socket) -> None:
    """Do the steps of an exchange on a blocking socket."""
    sock.sendall(exchange.begin())
    splitter = FrameSplitter(HANDSHAKE_FRAME_BYTES)
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            data = sock.recv(1024)
        except TimeoutError as error:
            if isinstance(exchange, SaslLogin):
                raise exchange.unanswered() from error
            raise
        if not data:
            break
        for frame in splitter.receive_data(data):
            following = exchange.received(frame)
            if following is None:
                return
            sock.sendall(following)
    raise OSError(
        f"the bookie closed the connection on {'START_TLS' if isinstance(exchange, StartTls) else 'the login'}"
    )
