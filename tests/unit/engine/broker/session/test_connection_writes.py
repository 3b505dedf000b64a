"""What is written to a client: in order, past the transport and through it, on both event loops."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvloop
from readonly_engine.broker.session import connection as connection_module
from readonly_engine.broker.session import transport as transport_module
from readonly_engine.broker.session.connection import ClientConnection
from readonly_engine.net import frame_slicer as slices
from readonly_engine.net.direct_writer import NO_DESCRIPTOR
from readonly_engine.net.half_open import HalfOpenConnections
from readonly_engine.net.tls import TlsFiles
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandFlow, CommandPing, CommandPong

from devstack.pulsar.security import Credentials
from tests.support.pushed_topics import Clients
from tests.support.waiting import until

PING = encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
PONG = encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
FRAME_BYTES = 64 << 10
FRAMES = 400
"""More than sockets and the transport's buffer take while nobody reads."""


def frame(number):
    return number.to_bytes(4, "big") * (FRAME_BYTES // 4)


async def left(reader):
    """How many bytes still come, and whether the connection is reset then."""
    got = 0
    try:
        while data := await reader.read(1 << 20):
            got += len(data)
    except ConnectionResetError:
        return got, True
    return got, False


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"], autouse=True)
def loop_factory(request):
    return request.param


@asynccontextmanager
async def connected():
    """Connect a client; yields the broker's end, and the client's reader and writer."""
    made = []

    def connection():
        made.append(ClientConnection(Clients()))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    try:
        await until(lambda: made)
        yield made[0], reader, writer
    finally:
        writer.close()
        server.close()


@pytest.fixture
def link():
    return connected()


async def test_what_the_socket_does_not_take_follows_in_order_and_then_it_goes_past_the_transport_again(link):
    connection, reader, _ = link
    assert connection.descriptor != NO_DESCRIPTOR
    for number in range(FRAMES):
        connection.send(frame(number))
        if number % 7 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert connection.descriptor == NO_DESCRIPTOR
    assert connection.buffered > 0
    assert not connection.writable
    assert await reader.readexactly(FRAMES * FRAME_BYTES) == b"".join(map(frame, range(FRAMES)))
    await until(lambda: not connection.buffered)
    connection.send(b"next")
    connection.flush_all()
    assert connection.descriptor != NO_DESCRIPTOR
    assert connection.writable
    assert await reader.readexactly(4) == b"next"


async def test_pieces_follow_what_waits_in_order_at_once_and_through_the_transport(link):
    connection, reader, _ = link
    for number in range(0, FRAMES, 2):
        connection.send(frame(number))
        connection.send_pieces([frame(number + 1)[:9], memoryview(frame(number + 1))[9:]], FRAME_BYTES)
        assert not connection.unsent
    assert connection.buffered > 0
    assert await reader.readexactly(FRAMES * FRAME_BYTES) == b"".join(map(frame, range(FRAMES)))
    await until(lambda: not connection.buffered)
    connection.send_pieces([b"ne", b"xt"], 4)
    assert connection.descriptor != NO_DESCRIPTOR
    assert await reader.readexactly(4) == b"next"


async def test_nothing_is_written_past_the_transport_of_a_client_that_has_gone(link):
    connection, _, writer = link
    writer.close()
    await until(lambda: connection.descriptor == NO_DESCRIPTOR)
    connection.send_pieces([b"data"], 4)
    connection.send(b"data")
    connection.flush_all()
    connection.write_remainder(b"data", 0)
    assert connection.descriptor == NO_DESCRIPTOR
    assert connection.buffered == 0


async def test_what_was_sent_before_closing_arrives(link):
    connection, reader, _ = link
    connection.send(b"last")
    connection.close()
    assert connection.descriptor == NO_DESCRIPTOR
    assert await reader.read() == b"last"


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """Contexts of a server and a client."""
    credentials = Credentials.make(tmp_path_factory.mktemp("tls"))
    credentials.certificate("broker")
    files = TlsFiles("tls", None, credentials.folder / "broker.pem", credentials.folder / "broker.key")
    return files.server_context(), TlsFiles("tls", credentials.authority).client_context()


@pytest.mark.parametrize("end", ["close", "abort", "expel"])
async def test_neither_does_tls_wait_for_a_client_that_does_not_read(tls, monkeypatch, end):
    monkeypatch.setattr(transport_module, "CLOSE_TIMEOUT_S", 0.1)
    server_context, client_context = tls
    ours = Clients()
    server = await asyncio.get_running_loop().create_server(
        lambda: ClientConnection(ours), "127.0.0.1", 0, ssl=server_context
    )
    address = server.sockets[0].getsockname()[:2]
    reader, writer = await asyncio.open_connection(*address, ssl=client_context, server_hostname="127.0.0.1")
    await until(lambda: ours.connections)
    (connection,) = ours.connections
    connection.on_authenticated(ANONYMOUS, 0)
    for number in range(FRAMES):
        connection.send(frame(number))
    assert connection.buffered
    if end == "expel":
        connection.disconnect(b"why")
    else:
        getattr(connection, end)()
    await until(lambda: not ours.connections)
    got, _ = await left(reader)
    assert got < FRAMES * FRAME_BYTES
    writer.close()
    server.close()


async def test_of_an_aborted_connection_not_even_what_the_kernel_holds_is_sent(link):
    connection, reader, _ = link
    for number in range(FRAMES):
        connection.send(frame(number))
    connection.flush_all()
    connection.abort()
    got, reset = await left(reader)
    assert reset
    assert got < FRAMES * FRAME_BYTES // 2
    assert connection not in connection.services.connections


async def test_a_silent_client_is_closed_after_two_rounds(link):
    connection, reader, _ = link
    connection.on_authenticated(ANONYMOUS, 0)
    connection.check_alive()
    connection.check_alive()
    ping = await reader.readexactly(len(PING))
    assert ping == PING
    connection.check_alive()
    with pytest.raises(ConnectionResetError):
        await reader.read()


async def test_a_client_that_is_not_let_in_is_closed_after_a_round(link):
    connection, reader, _ = link
    connection.check_alive()
    with pytest.raises(ConnectionResetError):
        await reader.read()
    assert len(connection.services.half_open) == 0


async def test_a_frame_over_the_limit_ends_the_connection_at_its_announcement(link):
    connection, reader, writer = link
    writer.write((HANDSHAKE_FRAME_BYTES + 1).to_bytes(4, "big"))
    assert await reader.read() == b""
    assert connection not in connection.services.connections


async def test_what_half_open_connections_hold_is_bounded(link):
    connection, reader, writer = link
    connection.services.half_open = HalfOpenConnections(1, 1000)
    connection.services.half_open.add(connection)
    writer.write(HANDSHAKE_FRAME_BYTES.to_bytes(4, "big") + bytes(1001))
    with pytest.raises(ConnectionResetError):
        await reader.read()


async def test_a_client_that_gives_no_sign_of_life_is_given_up(link, monkeypatch):
    connection, reader, _ = link
    monkeypatch.setattr(connection_module, "PROBE_TIMEOUT_S", 0.2)
    connection.on_authenticated(ANONYMOUS, 0)
    begin = asyncio.get_running_loop().time()
    asking = asyncio.ensure_future(connection.is_alive())
    assert await reader.readexactly(len(PING)) == PING
    assert not await asking
    assert asyncio.get_running_loop().time() - begin >= 0.15
    assert await left(reader) == (0, True)


async def test_a_client_that_gives_a_sign_of_life_stays(link, monkeypatch):
    connection, reader, writer = link
    monkeypatch.setattr(connection_module, "PROBE_TIMEOUT_S", 10.0)
    connection.on_authenticated(ANONYMOUS, 0)
    asking = asyncio.ensure_future(connection.is_alive())
    assert await reader.readexactly(len(PING)) == PING
    writer.write(PONG)
    assert await asking
    connection.check_alive()  # a round of keep-alive meanwhile forgets nothing
    connection._probe_timed_out()
    assert connection in connection.services.connections
    assert await connection_answers(connection, reader, writer)


async def connection_answers(connection, reader, writer):
    writer.write(PING)
    return await reader.readexactly(len(PONG)) == PONG


async def test_an_expelled_client_that_has_read_all_before_hears_why(link):
    connection, reader, _ = link
    connection.on_authenticated(ANONYMOUS, 0)
    connection.send(b"seen")
    connection.flush_all()
    assert await reader.readexactly(4) == b"seen"
    connection.send(b"not yet sent")
    connection.disconnect(b"why")
    assert await left(reader) == (3, False)


async def test_an_expelled_client_that_has_read_nothing_is_reset(link):
    connection, reader, _ = link
    connection.on_authenticated(ANONYMOUS, 0)
    for number in range(FRAMES):
        connection.send(frame(number))
    assert connection.buffered
    connection.disconnect(b"why")
    got, reset = await left(reader)
    assert reset
    assert got < FRAMES * FRAME_BYTES // 2


async def test_an_expelled_client_is_reset_while_the_kernel_holds_something(link):
    connection, reader, _ = link
    connection.on_authenticated(ANONYMOUS, 0)
    while not connection.buffered:
        connection.send(frame(0))
        connection.flush_all()
    while connection.buffered:
        await reader.readexactly(FRAME_BYTES)
    connection.disconnect(b"why")
    _, reset = await left(reader)
    assert reset, "the kernel still held something"


def flow(number):
    return encode_command(BaseCommand(type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=number, message_permits=1)))


async def test_the_commands_of_one_read_are_taken_in_order_and_others_get_their_turn_in_between(monkeypatch, link):
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    connection, _, writer = link
    connection.connected = True
    turns, taken = 0, []

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def handle(_connection, command, _frame):
        taken.append((command.flow.consumer_id, turns))

    monkeypatch.setattr(ClientConnection, "_handle", handle)
    task = asyncio.create_task(others())
    writer.write(b"".join(map(flow, range(1000))))
    await until(lambda: len(taken) == 1000)
    writer.write(flow(1000) + flow(1001))
    await until(lambda: len(taken) == 1002)
    task.cancel()
    assert [number for number, _ in taken] == list(range(1002))
    assert len({turn for _, turn in taken}) > 900
    assert not connection.reading_paused


async def test_commands_that_came_before_a_damaged_one_are_taken_before_the_connection_ends(monkeypatch, link):
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    connection, reader, writer = link
    connection.connected = True
    damaged = (8).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"\xff\xff\xff\xff"
    pings = 20
    writer.write(PING * pings + damaged + PING * pings)
    assert await reader.read(-1) == PONG * pings


async def test_a_client_that_reads_nothing_is_owed_one_pong_for_all_its_pings(monkeypatch, link):
    connection, reader, writer = link
    connection.connected = True
    while connection.writable:
        connection.send(frame(0))
        await asyncio.sleep(0)
    before = connection.buffered
    marker = []
    original = ClientConnection._handle

    def handle(connection, command, taken):
        if command.type == BaseCommand.FLOW:
            marker.append(1)
        else:
            original(connection, command, taken)

    monkeypatch.setattr(ClientConnection, "_handle", handle)
    writer.write(PING * 100_000 + flow(0))
    await until(lambda: marker)
    assert connection.buffered <= before
    writer.write(PING)
    tail = b""
    while not tail.endswith(PONG):
        tail = (tail + await reader.read(1 << 20))[-len(PONG) :]
    assert connection.writable
    writer.write(PING)
    assert await reader.readexactly(len(PONG)) == PONG


async def test_nothing_more_is_taken_of_a_client_that_was_closed_while_its_commands_wait(monkeypatch, link):
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    connection, _, writer = link
    connection.connected = True
    taken = []
    monkeypatch.setattr(ClientConnection, "_handle", lambda _, command, __: taken.append(command.flow.consumer_id))
    writer.write(b"".join(map(flow, range(1000))))
    await until(lambda: taken)
    connection.disconnect(b"")
    before = len(taken)
    await until(lambda: not connection.services.connections)
    assert before < 1000
    assert len(taken) == before
