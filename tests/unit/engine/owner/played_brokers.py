"""Brokers on real sockets for tests: they check credentials, send challenges, and answer lookups."""

import asyncio
from contextlib import asynccontextmanager

from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.commands import body_of, command_name, decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthChallenge,
    CommandConnected,
    CommandError,
    CommandLookupTopicResponse,
    CommandPong,
    ServerError,
)

FAILED = CommandError(request_id=-1, error=ServerError.AuthenticationError, message="Failed to authenticate")


TOKEN = Identity("token", b"old")


class Broker(asyncio.Protocol):
    """One connection of a broker with a set of good credentials, and a number of challenge rounds."""

    def __init__(self, server):
        self.server, self.splitter, self.transport = server, FrameSplitter(), None
        self.credentials, self.connect, self.let_in, self.closed = b"", None, False, False
        self.rounds = server.rounds

    def connection_made(self, transport):
        self.transport = transport
        self.server.connections.append(self)

    def connection_lost(self, exc):
        self.closed = True

    def data_received(self, data):
        for frame in self.splitter.receive_data(data):
            self.handle(decode_command(frame)[0])

    def send(self, command):
        self.transport.write(encode_command(command))

    def challenge(self, question=b"PulsarAuthRefresh"):
        data = AuthData(auth_method_name="token", auth_data=question)
        self.send(BaseCommand(type=BaseCommand.AUTH_CHALLENGE, auth_challenge=CommandAuthChallenge(challenge=data)))

    def judge(self):
        if self.credentials not in self.server.good:
            self.send(BaseCommand(type=BaseCommand.ERROR, error=FAILED))
            self.transport.close()
        elif self.rounds:
            self.rounds -= 1
            self.challenge(b"round %d" % self.rounds)
        elif not self.let_in:
            self.let_in = True
            self.send(BaseCommand(type=BaseCommand.CONNECTED, connected=CommandConnected(protocol_version=21)))

    def handle(self, command):
        self.server.asked.append(command_name(command))
        if command.type == BaseCommand.CONNECT:
            self.connect, self.credentials = command.connect, command.connect.auth_data
            self.judge()
        elif command.type == BaseCommand.AUTH_RESPONSE:
            self.credentials = command.auth_response.response.auth_data
            if not self.server.silent:
                self.judge()
        elif command.type == BaseCommand.PING and not self.server.silent:
            self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
        elif command.type == BaseCommand.LOOKUP and not self.server.silent:
            answer = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookup_topic_response=self.server.lookup)
            body_of(answer).request_id = command.lookup_topic.request_id
            self.send(answer)


class Server:
    """A broker on a loopback port."""

    def __init__(self, *good, rounds=0):
        self.good, self.rounds, self.connections, self.asked = set(good), rounds, [], []
        self.lookup, self.url, self.server, self.silent = CommandLookupTopicResponse(), "", None, False

    async def start(self):
        self.server = await asyncio.get_running_loop().create_server(lambda: Broker(self), "127.0.0.1", 0)
        self.url = f"pulsar://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        self.lookup = CommandLookupTopicResponse(
            response=CommandLookupTopicResponse.Connect, broker_service_url=self.url, authoritative=True
        )
        return self

    @property
    def open(self):
        return [connection for connection in self.connections if not connection.closed]

    def close(self):
        self.server.close()
        for connection in self.open:
            connection.transport.abort()


class Client:
    """An IdentityClient that answers challenges from a list; silent when the list is empty."""

    def __init__(self, *answers, able=True):
        self.answers, self.able, self.asked, self.expelled = list(answers), able, [], None

    def challenge(self, challenge, answered):
        if not self.able:
            return False
        self.asked.append(challenge.auth_data)
        if self.answers:
            asyncio.get_running_loop().call_soon(answered, self.answers.pop(0))
        return True

    def disconnect(self, error):
        self.expelled = error


@asynccontextmanager
async def playing(*servers):
    """Start servers; yields the directory of their owners, and the servers."""
    for server in servers:
        await server.start()
    owners = OwnerDirectory(*(server.url for server in servers))
    try:
        yield owners, *servers
    finally:
        owners.close()
        for server in servers:
            server.close()
