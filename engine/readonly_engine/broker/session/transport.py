"""The transport of a client's connection: coalesced and direct writes, pauses of reading, and its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.session.bounds import MAX_COALESCED_BYTES, REDUCED_BUFFER_BYTES, WRITE_BUFFER_BYTES
from readonly_engine.net.direct_writer import NO_DESCRIPTOR
from readonly_engine.net.sending import discard_on_close, join_rest, send_one, send_pieces, unsent_bytes
from readonly_engine.wire.commands import body_of, encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandError, CommandSuccess, ServerError

if TYPE_CHECKING:
    from readonly_engine.net.direct_writer import DirectSubscriber
    from readonly_engine.net.write_coalescer import WriteCoalescer

CLOSE_TIMEOUT_S = 2.0
"""Time for a closing connection to send its buffer, as in connections to owners."""


class WriteServices(Protocol):
    """Interface of the broker for writes to clients.

    Attributes:
        write_coalescer: flushes pending frames once per iteration of the event loop.
    """

    write_coalescer: WriteCoalescer

    @property
    def under_memory_pressure(self) -> bool:
        """Whether the buffers of slow clients may exceed the limit of buffered bytes."""


class ClientTransport(asyncio.Protocol):
    """Writes to one client.

    Args:
        writes: the broker.

    Attributes:
        peer: `HOST:PORT` of the client.
        address: host of the client.
        writable: whether the write buffer is below its limit.
        descriptor: file descriptor for direct writes; -1 while they are not possible: with TLS, with data in the transport's
            buffer, and after the end.
        direct_subscribers: subscribers that get direct writes.
        unsent: frames that the next flush writes.
    """

    __slots__ = (
        "_buffer_reduced",
        "_close_timer",
        "_closed",
        "_reading_paused_by",
        "_socket",
        "_transport",
        "_unsent_bytes",
        "_writes",
        "address",
        "descriptor",
        "direct_subscribers",
        "peer",
        "unsent",
        "writable",
    )

    def __init__(self, writes: WriteServices) -> None:
        self.peer = "?"
        self.address = ""
        self.writable = True
        self.descriptor = NO_DESCRIPTOR
        self.direct_subscribers: dict[DirectSubscriber, None] = {}
        self._writes = writes
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._close_timer: asyncio.TimerHandle | None = None
        self._buffer_reduced = False
        self.unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._socket = NO_DESCRIPTOR
        self._reading_paused_by: dict[object, None] = {}  # an empty dict takes a third of an empty set's memory

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or closing."""
        return self._closed

    @property
    def buffered(self) -> int:
        """Bytes in the transport's write buffer, without pending frames and the kernel's buffer."""
        return 0 if self._transport is None or self._closed else self._transport.get_write_buffer_size()

    @property
    def tls(self) -> bool:
        """Whether the connection uses TLS."""
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    def _open(self, transport: asyncio.Transport) -> None:
        """Begin to write to a new connection."""
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self.address = str(peer[0]) if peer else ""
        if not self.tls and (found := transport.get_extra_info("socket")) is not None:
            self._socket = self.descriptor = found.fileno()

    def _lost(self) -> None:
        """Stop all writes, because the transport closes the socket next, and the system reuses its descriptor."""
        self._closed = True
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._stop_direct_writes(permanently=True)

    def _restore_buffer(self) -> None:
        """Restore the limit of the write buffer when the client reads again."""
        if self._buffer_reduced and self._transport is not None:
            self._buffer_reduced = False
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    # Writing

    def send(self, frame: bytes) -> None:
        """Send a frame. The frames of one iteration of the event loop are coalesced."""
        if self._closed:
            return
        if not self.unsent:
            self._writes.write_coalescer.add(self)
        self.unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > MAX_COALESCED_BYTES:
            self.flush()  # so that a slow client is detected before more frames are added

    def flush(self) -> None:
        """Write the pending frames (BufferedWriter)."""
        frames, self.unsent = self.unsent, []
        self._unsent_bytes = 0
        if not frames:
            return
        if self._transport is not None and not self._closed:
            self._write(frames[0] if len(frames) == 1 else b"".join(frames), self._transport)

    def _begin_direct_writes(self, transport: asyncio.Transport) -> None:
        if self.descriptor == NO_DESCRIPTOR and self._socket != NO_DESCRIPTOR and not transport.get_write_buffer_size():
            self.descriptor = self._socket

    def _write(self, data: bytes, transport: asyncio.Transport) -> None:
        self._begin_direct_writes(transport)
        written = 0
        if self.descriptor != NO_DESCRIPTOR:
            written = send_one(self.descriptor, data)
            if written == len(data):
                return
        self.write_remainder(data, written)

    def send_pieces(self, pieces: list[bytes | memoryview], size: int) -> None:
        """Write large frames at once, after the pending ones, without joining their pieces.

        Args:
            pieces: the bytes.
            size: their number.
        """
        if self.unsent:
            self.flush()
        if self._transport is None or self._closed:
            return
        self._begin_direct_writes(self._transport)
        written = send_pieces(self.descriptor, pieces) if self.descriptor != NO_DESCRIPTOR else 0
        if written < size:
            self.write_remainder(join_rest(pieces, written), 0)

    def write_now(self, data: bytes) -> None:
        """Write frames at once, after the pending ones."""
        if self.unsent:
            self.flush()
        if self._transport is not None and not self._closed:
            self._write(data, self._transport)

    def flush_all(self) -> None:
        """Write the pending frames of all clients now."""
        self._writes.write_coalescer.flush()

    def write_remainder(self, data: bytes, written: int) -> None:
        """Give the rest of a direct write to the transport, and end direct writes until its buffer is empty.

        Args:
            data: all bytes of the write.
            written: number of bytes that the socket has accepted.
        """
        if self.descriptor != NO_DESCRIPTOR:
            self._stop_direct_writes()
        if self._transport is None or self._closed:
            return
        self._transport.write(data[written:])
        if self._writes.under_memory_pressure and not self._buffer_reduced and self.buffered > REDUCED_BUFFER_BYTES:
            self._buffer_reduced = True
            self._transport.set_write_buffer_limits(high=REDUCED_BUFFER_BYTES)

    def _stop_direct_writes(self, *, permanently: bool = False) -> None:
        """End direct writes, permanently or until the transport's buffer is empty."""
        self.descriptor = NO_DESCRIPTOR
        if permanently:
            self._socket = NO_DESCRIPTOR
        for subscriber in list(self.direct_subscribers):
            subscriber.leave_fanout()

    def respond(self, command: BaseCommand, request_id: int) -> None:
        """Send a response with the id of the client's request."""
        body_of(command).request_id = request_id
        self.send(encode_command(command))

    def refuse(self, request_id: int, code: ServerError, message: str) -> None:
        """Answer a request with an error."""
        error = CommandError(request_id=request_id, error=code, message=message)
        self.send(encode_command(BaseCommand(type=BaseCommand.ERROR, error=error)))

    def succeed(self, request_id: int) -> None:
        """Answer a request with SUCCESS."""
        self.send(encode_command(BaseCommand(type=BaseCommand.SUCCESS, success=CommandSuccess(request_id=request_id))))

    # Reading

    @property
    def reading_paused(self) -> bool:
        """Whether reading from the client is paused."""
        return bool(self._reading_paused_by)

    def pause_reading_for(self, holder: object, *, paused: bool) -> None:
        """Pause or resume reading for one holder. Reading is paused while any holder pauses it."""
        was_paused = bool(self._reading_paused_by)
        if paused:
            self._reading_paused_by[holder] = None
        else:
            self._reading_paused_by.pop(holder, None)
        if self._transport is None or self._closed or was_paused == bool(self._reading_paused_by):
            return
        if was_paused:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # The end

    def close(self) -> None:
        """Close the connection after its buffers are sent, or after CLOSE_TIMEOUT_S."""
        if self._transport is None or self._closed:
            return
        if self.unsent:
            self.flush()
        self._stop_direct_writes(permanently=True)
        self._closed = True
        self._transport.close()
        # A transport would wait for ever for a peer that does not read, or does not answer the end of TLS.
        self._close_timer = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self.abort)

    def abort(self) -> None:
        """Close the connection at once, and drop all buffered bytes, those of the kernel included."""
        if self._transport is None:
            return
        self.unsent, self._unsent_bytes = [], 0
        self._stop_direct_writes(permanently=True)
        self._closed = True
        if (found := self._transport.get_extra_info("socket")) is not None:
            discard_on_close(found)
        self._transport.abort()

    def disconnect(self, error_frame: bytes) -> None:
        """Close the connection, and drop all buffered bytes, because the client may not get them any more.

        Args:
            error_frame: a frame with the reason, empty for none. It is sent only if nothing is buffered before it.
        """
        self.unsent, self._unsent_bytes = [], 0
        if self._transport is None or self._closed:
            return
        found = self._transport.get_extra_info("socket")
        if self.buffered or found is None or unsent_bytes(found):
            self.abort()
            return
        self.send(error_frame)
        self.close()
