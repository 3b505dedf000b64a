"""The HTTP port under clients that take places, time or memory, with small bounds; each runs on both event loops."""

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import uvloop
from aiohttp import web
from readonly_engine.http.access import OPEN
from readonly_engine.http.guard import BOUNDS, HttpBounds, HttpPort

from tests.support.waiting import until

GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE_BYTES = 8 << 20
LONG_S = 60.0


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"], autouse=True)
def loop_factory(request):
    return request.param


@asynccontextmanager
async def serving(access=OPEN, **bounds):
    never = asyncio.Event()
    cancelled, answered = [], []

    async def healthz(_request):
        return web.Response(text="ok\n")

    async def large(_request):
        answered.append(True)
        return web.Response(body=bytes(LARGE_BYTES))

    async def hang(_request):
        try:
            await never.wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/large", large)
    app.router.add_get("/hang", hang)
    port = HttpPort(app, HttpBounds(**({"first_request_s": LONG_S, "answer_s": LONG_S} | bounds)), access)
    port.cancelled, port.answered = cancelled, answered
    await port.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await port.close()


class Client:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def get(self, request=GET):
        self.writer.write(request)
        return await self.answer()

    async def answer(self):
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
        await self.reader.readexactly(length)
        return int(head.split(b" ")[1])

    async def closed(self, seconds=10):
        async with asyncio.timeout(seconds):
            try:
                while await self.reader.read(1 << 16):
                    pass
            except ConnectionError:
                pass


@asynccontextmanager
async def client(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)  # else the kernel takes whole responses
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port.port))
        reader, writer = await asyncio.open_connection(sock=sock.dup(), limit=1 << 16)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


def test_the_bounds_are_those_of_the_documents():
    assert HttpBounds(256, 10.0, 90.0, 60.0, 64 << 10, 64 << 20) == BOUNDS


async def test_one_more_connection_replaces_the_one_without_a_request_for_the_longest_time():
    async with AsyncExitStack() as stack, serving(connections=3) as port:
        first, second, third = [await stack.enter_async_context(client(port)) for _ in range(3)]
        await until(lambda: len(port) == 3)
        assert await first.get() == 200
        fourth = await stack.enter_async_context(client(port))
        await second.closed()
        assert len(port) == 3
        assert [await one.get() for one in (first, third, fourth)] == [200] * 3


async def test_a_probe_is_answered_while_strangers_take_all_places_again_and_again():
    async with serving(connections=64) as port:

        async def strange(request):
            while True:
                async with client(port) as stranger:
                    stranger.writer.write(request)
                    await stranger.closed(LONG_S)

        strangers = [asyncio.create_task(strange(request)) for request in [b"", b"GET / HT", GET] * 23]
        try:
            await until(lambda: len(port) == 64)
            for _ in range(20):
                async with client(port) as probe:
                    assert await probe.get() == 200
                    assert len(port) == 64
        finally:
            for one in strangers:
                one.cancel()
            await asyncio.gather(*strangers, return_exceptions=True)


@pytest.mark.parametrize("begin", [b"", b"GET /healthz HTTP/1.1\r\nHost"], ids=["silent", "in part"])
async def test_a_client_without_a_first_complete_request_is_disconnected(begin):
    async with serving(first_request_s=0.1) as port, client(port) as slow:
        slow.writer.write(begin)
        await slow.closed()
        await until(lambda: len(port) == 0)


async def test_a_byte_at_a_time_wins_no_time():
    async with serving(first_request_s=0.3) as port, client(port) as slow:
        closed = asyncio.create_task(slow.closed())
        for byte in GET[:-1] * 10:
            slow.writer.write(bytes([byte]))
            await asyncio.wait({closed}, timeout=0.02)
            if closed.done():
                return
        pytest.fail("it was never disconnected")


@pytest.mark.parametrize("asked", [LARGE, LARGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")])
async def test_a_client_that_reads_nothing_is_disconnected_also_if_it_asked_to_close(asked):
    async with serving(answer_s=0.2) as port, client(port) as slow:
        slow.writer.write(asked)
        await until(lambda: len(port) == 1)
        await until(lambda: len(port) == 0)


async def test_an_idle_client_is_not_disconnected_by_the_deadline_of_its_answer():
    async with serving(answer_s=0.1) as port, client(port) as honest:
        assert await honest.get() == 200
        closed = asyncio.create_task(honest.reader.read(1))
        await asyncio.wait({closed}, timeout=0.3)
        assert not closed.done()
        closed.cancel()


async def test_a_client_that_reads_nothing_does_not_delay_the_end():
    async with AsyncExitStack() as stack:
        async with serving() as port:
            for request in (LARGE, b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n", b""):
                slow = await stack.enter_async_context(client(port))
                slow.writer.write(request)
            await until(lambda: port.answered)
            begin = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - begin < 10
        assert len(port) == 0


async def test_a_handler_ends_with_its_connection():
    async with serving(answer_s=0.1) as port, client(port) as slow:
        slow.writer.write(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: port.cancelled)
        await slow.closed()


async def test_responses_that_nobody_reads_take_bounded_memory():
    async with AsyncExitStack() as stack, serving(unread_bytes=2 * LARGE_BYTES) as port:
        for _ in range(10):
            greedy = await stack.enter_async_context(client(port))
            greedy.writer.write(LARGE)
        await until(lambda: len(port.answered) == 10)
        assert len(port) < 10
        assert sum(one.unread_bytes for one in port._connections.values()) <= 3 * LARGE_BYTES
        async with client(port) as honest:
            assert await honest.get() == 200
            assert await honest.get(LARGE) == 200


@pytest.mark.parametrize(
    "flood",
    [b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", LARGE * 100],
    ids=["body", "pipelined"],
)
async def test_requests_that_wait_take_bounded_memory(flood):
    async with serving(request_bytes=4096) as port, client(port) as greedy:
        greedy.writer.write(flood)
        for _ in range(100):
            greedy.writer.write(bytes(1000))
        await until(lambda: len(port) == 0)


async def test_pipelined_requests_within_the_bound_are_answered():
    async with serving() as port, client(port) as eager:
        eager.writer.write(GET * 50)
        assert [await eager.answer() for _ in range(50)] == [200] * 50


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz HTTP/9\r\n\r\n", 400),
        (b"BREW secret HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\x00\r\n\r\n", 400),
        (b"GET /?secret=\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /" + b"secret" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nContent-Encoding: gzip\r\n\r\nsecret", 405),
        (b"\x16\x03\x01\x02\x00\x01secret\r\n\r\n", 400),
    ],
    ids=["version", "method", "header", "bytes", "long", "encoding", "TLS"],
)
async def test_a_request_that_is_no_http_is_refused_and_not_logged(caplog, request_, status):
    """Anybody can send it again and again, and a part of it may be a token."""
    async with serving() as port:
        async with client(port) as wrong:
            wrong.writer.write(request_)
            head = await wrong.reader.readuntil(b"\r\n")
            assert int(head.split(b" ")[1]) == status
            wrong.writer.write_eof()
            await wrong.closed()
        async with client(port) as honest:
            assert await honest.get() == 200
    assert "secret" not in caplog.text
    assert not caplog.records


async def test_an_error_of_a_handler_is_logged(caplog):
    async def fails(_request):
        raise ValueError("a defect")

    app = web.Application()
    app.router.add_get("/healthz", fails)
    port = HttpPort(app)
    await port.start("127.0.0.1", 0)
    async with client(port) as honest:
        assert await honest.get() == 500
    await port.close()
    assert "a defect" in caplog.text


@pytest.mark.parametrize(
    "first",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        b"Content-Length: +5\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=["both lengths", "two lengths", "sign", "unknown coding", "space"],
)
async def test_a_request_of_ambiguous_length_hides_no_second_one(first):
    async with serving() as port, client(port) as wrong:
        wrong.writer.write(b"POST /healthz HTTP/1.1\r\nHost: a\r\n" + first + GET)
        assert await wrong.answer() == 400
        assert await wrong.reader.read() == b"", "the connection ends with the refusal"


async def test_a_taken_address_is_an_error():
    async with serving() as port:
        other = HttpPort(web.Application())
        with pytest.raises(OSError, match="in use"):
            await other.start("127.0.0.1", port.port)
