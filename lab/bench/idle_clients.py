"""`python -m bench.idle_clients`: many idle clients of one broker, with a consumer each, in one process.

They behave as stock clients do: CONNECT, LOOKUP, SUBSCRIBE, FLOW, a PING every 30 s, and a PONG for each PING.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Final, cast

import uvloop
from readonly_engine.wire.commands import NEWEST_PROTOCOL_VERSION, command_name, decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandFlow,
    CommandLookupTopic,
    CommandPing,
    CommandPong,
    CommandSubscribe,
)

KEEP_ALIVE_S: Final = 30.0
"""Interval of PINGs of stock clients (keepAliveIntervalSeconds)."""

PERMITS: Final = 1000
"""Permits of a stock client's first FLOW (receiverQueueSize)."""

OPENING: Final = 100
"""Clients that connect concurrently."""

OPEN_TIMEOUT_S: Final = 300.0

_PING: Final = encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
_PONG: Final = encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))


class ClientError(Exception):
    """The broker refused or disconnected a client."""


class IdleClient(asyncio.Protocol):
    """One connection with one consumer.

    Args:
        topic: the topic.
        subscription: its subscription.
        kind: CommandSubscribe.SubType.
    """

    def __init__(self, topic: str, subscription: str, kind: CommandSubscribe.SubType) -> None:
        self.messages = 0
        self.ended = ""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._topic = topic
        self._subscription = subscription
        self._kind = kind
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT; called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport has another base class
        connect = CommandConnect(client_version="idle", protocol_version=NEWEST_PROTOCOL_VERSION)
        self._send(BaseCommand(type=BaseCommand.CONNECT, connect=connect))

    def data_received(self, data: bytes) -> None:
        """Handle frames; called by asyncio."""
        for frame in self._splitter.receive_data(data):
            command, _ = decode_command(frame)
            self._take(command)

    def connection_lost(self, exc: Exception | None) -> None:
        """Record the end of the connection; called by asyncio."""
        self._fail(f"the connection ended: {exc or 'end of stream'}")

    def ping(self) -> None:
        """Send a PING."""
        if self._transport is not None and not self.ended:
            self._transport.write(_PING)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def _take(self, command: BaseCommand) -> None:
        kind = command.type
        if kind == BaseCommand.PING:
            assert self._transport is not None
            self._transport.write(_PONG)
        elif kind == BaseCommand.MESSAGE:
            self.messages += 1
        elif kind == BaseCommand.CONNECTED:
            lookup = CommandLookupTopic(topic=self._topic, request_id=1)
            self._send(BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=lookup))
        elif kind == BaseCommand.LOOKUP_RESPONSE:
            subscribe = CommandSubscribe(
                topic=self._topic,
                subscription=self._subscription,
                sub_type=self._kind,
                consumer_id=0,
                request_id=2,
                initial_position=CommandSubscribe.Latest,
            )
            self._send(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe))
        elif kind == BaseCommand.SUCCESS:
            flow = CommandFlow(consumer_id=0, message_permits=PERMITS)
            self._send(BaseCommand(type=BaseCommand.FLOW, flow=flow))
            if not self.ready.done():
                self.ready.set_result(None)
        elif kind == BaseCommand.ERROR:
            self._fail(command.error.message)
        elif kind == BaseCommand.CLOSE_CONSUMER:
            self._fail("the broker closed the consumer")
        elif kind != BaseCommand.PONG:
            self._fail(f"unexpected {command_name(command)}")

    def _send(self, command: BaseCommand) -> None:
        assert self._transport is not None
        self._transport.write(encode_command(command))

    def _fail(self, reason: str) -> None:
        self.ended = self.ended or reason
        if not self.ready.done():
            self.ready.set_exception(ClientError(reason))


async def run(arguments: argparse.Namespace) -> None:
    """Connect all clients, keep them until standard input ends, and print a line of JSON after each of both steps."""
    loop = asyncio.get_running_loop()
    host, _, port = arguments.broker.rpartition(":")
    kind = cast("CommandSubscribe.SubType", CommandSubscribe.SubType.Value(arguments.type))
    turn = asyncio.Semaphore(OPENING)
    clients: list[IdleClient] = []

    async def open_one(number: int) -> None:
        name = arguments.subscription.replace("#", str(number))
        async with turn, asyncio.timeout(OPEN_TIMEOUT_S):
            _, client = await loop.create_connection(
                lambda: IdleClient(arguments.topic, name, kind), host, int(port), local_addr=(arguments.source, 0)
            )
            clients.append(client)
            await client.ready

    begin = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(arguments.first, arguments.first + arguments.count):
            group.create_task(open_one(number))
    print(json.dumps({"open": len(clients), "seconds": loop.time() - begin}), flush=True)  # noqa: T201
    end = loop.run_in_executor(None, sys.stdin.read)
    pings = asyncio.create_task(_keep_alive(clients))
    await end
    pings.cancel()
    ended = [client.ended for client in clients if client.ended]
    counts = {"messages": sum(one.messages for one in clients), "ended": len(ended), "why": sorted(set(ended))[:5]}
    print(json.dumps(counts), flush=True)  # noqa: T201
    for client in clients:
        client.close()


async def _keep_alive(clients: list[IdleClient]) -> None:
    """Send a PING of each client every 30 s, evenly spread."""
    while True:
        for client in clients:
            client.ping()
            await asyncio.sleep(KEEP_ALIVE_S / len(clients))


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle_clients", description=__doc__.splitlines()[0])
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--subscription", required=True, help="its name; # is the client's number")
    parser.add_argument("--type", default="Exclusive", choices=list(CommandSubscribe.SubType.keys()))
    parser.add_argument("--first", type=int, default=0, help="number of the first client")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--source", default="127.0.0.1", help="the clients' own address")
    uvloop.run(run(parser.parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
