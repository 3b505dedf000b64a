"""The hostile clients: raw sockets, each with one behaviour that no stock client has."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from readonly_engine.wire.commands import command_name, decode_command, encode_command
from readonly_engine.wire.framing import FRAME_BYTES, FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandConnect,
    CommandFlow,
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandPing,
    CommandProducer,
    CommandSend,
    CommandSubscribe,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECTED: Final = "stays connected"
CLOSED: Final = "closes"
WAIT_S: Final = 2.0
"""Time in which a server's reaction must show."""

PING: Final = encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))


class Attacker:
    """One raw connection.

    Args:
        url: URL of the server.
        connect: whether to send CONNECT.

    Attributes:
        heard: commands of the server.
        closed: whether the server has closed the connection.
    """

    def __init__(self, url: str, *, connect: bool = True) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=30)
        self.heard: list[BaseCommand] = []
        self.closed = False
        self._splitter = FrameSplitter(FRAME_BYTES)
        if connect:
            hello = CommandConnect(client_version="hostile", protocol_version=21)
            self.send(encode_command(BaseCommand(type=BaseCommand.CONNECT, connect=hello)))
            self.listen(10, BaseCommand.CONNECTED)

    def __enter__(self) -> Attacker:  # noqa: PYI034 - nobody derives from it
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes, seconds: float = WAIT_S) -> None:
        """Send as much as the server reads in that time."""
        self.socket.settimeout(seconds)
        try:
            self.socket.sendall(data)
        except TimeoutError:
            pass  # the server does not read
        except OSError:
            self.closed = True

    def listen(self, seconds: float = WAIT_S, until: int | None = None) -> None:
        """Read commands until a type of command, the end of the connection, or the timeout."""
        deadline = time.monotonic() + seconds
        while not self.closed and (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                return
            except OSError:
                data = b""
            self.closed = not data
            for frame in self._splitter.receive_data(data):
                self.heard.append(decode_command(frame)[0])
            if until is not None and any(command.type == until for command in self.heard):
                return

    @property
    def outcome(self) -> str:
        """Reaction of the server: errors, and whether it closed the connection."""
        errors = {command_name(one) for one in self.heard if one.type in {BaseCommand.ERROR, BaseCommand.SEND_ERROR}}
        return ", ".join([*sorted(errors), CLOSED if self.closed else CONNECTED])


@dataclass(frozen=True, slots=True)
class Attack:
    """A row of the table.

    Attributes:
        name: name on the command line.
        title: title in the table.
        run: attacks a server (URL) with a new topic; returns the server's reaction.
        short: whether `make test` includes it.
    """

    name: str
    title: str
    run: Callable[[str, str], str]
    short: bool = True


def _subscribe(topic: str, **fields: Any) -> bytes:
    complete = {"subscription": "s", "sub_type": CommandSubscribe.Shared, "consumer_id": 0, "request_id": 0, **fields}
    return encode_command(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=CommandSubscribe(topic=topic, **complete)))


def _flow(permits: int, consumer_id: int = 0) -> bytes:
    # The field is an int32, so 2^31 is encoded as the negative number with the same bits.
    signed = permits - (1 << 32) if permits >= 1 << 31 else permits
    flow = CommandFlow(consumer_id=consumer_id, message_permits=signed)
    return encode_command(BaseCommand(type=BaseCommand.FLOW, flow=flow))


def _ack(first: int, count: int, consumer_id: int = 0) -> bytes:
    ack = CommandAck(consumer_id=consumer_id, ack_type=CommandAck.Individual)
    for number in range(first, first + count):
        ack.message_id.add(ledger_id=(1 << 40) + number % 97, entry_id=number)
    return encode_command(BaseCommand(type=BaseCommand.ACK, ack=ack))


def _after_connect(*frames: bytes) -> Callable[[str, str], str]:
    def run(url: str, _topic: str) -> str:
        with Attacker(url) as attacker:
            for frame in frames:
                attacker.send(frame)
            attacker.listen()
            return attacker.outcome

    return run


def _as_consumer(*frames: bytes) -> Callable[[str, str], str]:
    def run(url: str, topic: str) -> str:
        with Attacker(url) as attacker:
            attacker.send(_subscribe(topic))
            attacker.listen(10, BaseCommand.SUCCESS)
            for frame in frames:
                attacker.send(frame)
            attacker.listen()
            return attacker.outcome

    return run


def _before_connect(*frames: bytes) -> Callable[[str, str], str]:
    def run(url: str, _topic: str) -> str:
        with Attacker(url, connect=False) as attacker:
            for frame in frames:
                attacker.send(frame)
            attacker.listen()
            return attacker.outcome

    return run


def _slow_loris(url: str, _topic: str) -> str:
    hello = encode_command(BaseCommand(type=BaseCommand.CONNECT, connect=CommandConnect(client_version="x" * 5000)))
    begin = time.monotonic()
    with Attacker(url, connect=False) as attacker:
        for byte in hello:
            attacker.send(bytes([byte]))
            attacker.listen(0.25)
            if attacker.closed or time.monotonic() - begin > 70:
                break
        return f"{attacker.outcome} after {time.monotonic() - begin:.0f} s" if attacker.closed else attacker.outcome


def _half_open(count: int) -> Callable[[str, str], str]:
    def run(url: str, _topic: str) -> str:
        with ExitStack() as stack:
            taken = 0
            with suppress(OSError):
                for _ in range(count):
                    stack.enter_context(Attacker(url, connect=False))
                    taken += 1
            with Attacker(url) as late:
                late.send(PING)
                late.listen(10, BaseCommand.PONG)
                answered = any(command.type == BaseCommand.PONG for command in late.heard)
            return f"{taken:,} taken, one more client is {'served' if answered else 'not served'}"

    return run


def _ping_flood(url: str, _topic: str) -> str:
    """Send PINGs for 4 s without reading the answers."""
    with Attacker(url) as attacker:
        deadline = time.monotonic() + 4
        while not attacker.closed and time.monotonic() < deadline:
            attacker.send(PING * 2000, 0.5)
        return attacker.outcome


def _subscribe_flood(url: str, topic: str) -> str:
    with Attacker(url) as attacker:
        numbers = range(2000)
        flood = [_subscribe(topic, consumer_id=n, request_id=n, subscription=f"s{n % 50}") for n in numbers]
        attacker.send(b"".join(flood), 10)
        attacker.listen(5)
        return attacker.outcome


def _ack_flood(url: str, topic: str) -> str:
    with Attacker(url) as attacker:
        attacker.send(_subscribe(topic))
        attacker.listen(10, BaseCommand.SUCCESS)
        for start in range(0, 400_000, 4000):
            attacker.send(_ack(start, 4000), 5)
        attacker.listen()
        return attacker.outcome


def _producer(topic: str) -> bytes:
    producer = CommandProducer(topic=topic, producer_id=0, request_id=0)
    return encode_command(BaseCommand(type=BaseCommand.PRODUCER, producer=producer))


def _send(size: int, producer_id: int = 0) -> bytes:
    send = CommandSend(producer_id=producer_id, sequence_id=0)
    return encode_command(BaseCommand(type=BaseCommand.SEND, send=send), bytes(size))


def _publishes_early(url: str, topic: str) -> str:
    with Attacker(url) as attacker:
        attacker.send(_producer(topic) + _send(10))
        attacker.listen()
        return attacker.outcome


def _publishes(size: int) -> Callable[[str, str], str]:
    def run(url: str, topic: str) -> str:
        with Attacker(url) as attacker:
            attacker.send(_producer(topic))
            attacker.listen(10, BaseCommand.PRODUCER_SUCCESS)
            attacker.send(_send(size), 10)
            attacker.listen()
            return attacker.outcome

    return run


_CLOSE = encode_command(
    BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=CommandCloseConsumer(consumer_id=99, request_id=1))
)
_LOOKUP = encode_command(
    BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=CommandLookupTopic(topic="orders", request_id=1))
)
_NAMESPACE = encode_command(
    BaseCommand(
        type=BaseCommand.GET_TOPICS_OF_NAMESPACE,
        get_topics_of_namespace=CommandGetTopicsOfNamespace(request_id=1, namespace="not/a/name/space"),
    )
)
_TRUNCATED = (1 << 20).to_bytes(4, "big") + bytes(100)
_TOO_LONG = (FRAME_BYTES + 1).to_bytes(4, "big") + bytes(1 << 16)
_UNKNOWN = (8).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"\x08\xff\xff\x03"

ATTACKS: Final = (
    Attack("huge-frame", "a frame of 60 MiB before CONNECT", _before_connect((60 << 20).to_bytes(4, "big"), bytes(30 << 20))),
    Attack("truncated", "a frame whose rest never comes", _after_connect(_TRUNCATED)),
    Attack("too-long", "a frame of one byte over the limit", _after_connect(_TOO_LONG)),
    Attack("negative", "a frame of negative length", _after_connect(b"\xff\xff\xff\xff")),
    Attack("not-pulsar", "an HTTP request", _before_connect(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")),
    Attack("unknown-command", "a command of an unknown type", _after_connect(_UNKNOWN)),
    Attack("no-connect", "LOOKUP before CONNECT", _before_connect(_LOOKUP)),
    Attack("connect-twice", "CONNECT twice", _after_connect(
        encode_command(BaseCommand(type=BaseCommand.CONNECT, connect=CommandConnect(client_version="x"))))),
    Attack("flow-2-31", "FLOW of 2^31", _as_consumer(_flow(1 << 31))),
    Attack("flow-0", "FLOW of 0", _as_consumer(_flow(0))),
    Attack("flow-max", "FLOW of 2^31 - 1, ten times", _as_consumer(*[_flow((1 << 31) - 1)] * 10)),
    Attack("unknown-ids", "FLOW, ACK and CLOSE of unknown consumers", _after_connect(_flow(1, 99), _ack(0, 1, 99), _CLOSE)),
    Attack("bad-namespace", "topics of an invalid namespace", _after_connect(_NAMESPACE)),
    Attack("send-unknown", "SEND of an unknown producer", _after_connect(_send(10, 99))),
    Attack("send-early", "SEND before PRODUCER_SUCCESS", _publishes_early),
    Attack("send-6-mb", "SEND of 6 MB", _publishes(6_000_000)),
    Attack("ack-500000", "an ACK of 500,000 ids", _as_consumer(_ack(0, 500_000))),
    Attack("ack-flood", "400,000 acks of foreign ids", _ack_flood, short=False),
    Attack("subscribe-flood", "2,000 SUBSCRIBEs at once", _subscribe_flood, short=False),
    Attack("ping-flood", "PINGs for 4 s, answers not read", _ping_flood, short=False),
    Attack("half-open", "2,000 connections without CONNECT", _half_open(2000), short=False),
    Attack("half-open-many", "10,000 connections without CONNECT", _half_open(10_000), short=False),
    Attack("slow-loris", "CONNECT at four bytes per second", _slow_loris, short=False),
)  # fmt: skip
