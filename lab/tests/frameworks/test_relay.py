"""The address of a pool, and the record of admin requests."""

import asyncio
import json

from aiohttp import ClientSession, web

from longtests.frameworks.relay import AddressRelay, AdminRecorder, RelayLoop
from tests.support.waiting import until


async def named_server(name: bytes) -> tuple[asyncio.Server, str]:
    """A server that answers each line with its name and the line."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(name + line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b" hello\n")
    try:
        return await reader.readline()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_an_address_connects_to_live_servers_in_turn() -> None:
    (a, a_address), (b, b_address) = await named_server(b"a"), await named_server(b"b")
    live = [a_address, b_address]
    relay = AddressRelay(lambda: live)
    port = await relay.start()
    assert {await ask(port), await ask(port)} == {b"a hello\n", b"b hello\n"}
    live.remove(a_address)
    assert [await ask(port) for _ in range(2)] == [b"b hello\n"] * 2
    live.clear()
    assert await ask(port) == b""
    live.append("127.0.0.1:1")
    assert await ask(port) == b""
    await relay.close()
    for server in (a, b):
        server.close()


async def test_the_end_of_a_server_ends_its_connections() -> None:
    server, address = await named_server(b"a")
    relay = AddressRelay(lambda: [address])
    reader, writer = await asyncio.open_connection("127.0.0.1", await relay.start())
    writer.write(b"\n")
    await reader.readline()
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await until(lambda: not relay._tasks, what="the relay has no connection")
    await relay.close()
    server.close()


async def test_admin_requests_are_passed_on_and_recorded() -> None:
    async def handle(request: web.Request) -> web.Response:
        if request.path.endswith("missing"):
            return web.json_response({"reason": "no"}, status=404)
        said = {"query": request.query_string, "body": await request.text(), "token": request.headers.get("X-Token")}
        return web.json_response(said)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    recorder = AdminRecorder(f"http://127.0.0.1:{runner.addresses[0][1]}")
    base = f"http://127.0.0.1:{await recorder.start()}"
    async with ClientSession() as session:
        path = "/admin/v2/persistent/public/default/t/partitions"
        for _ in range(2):
            async with session.put(f"{base}{path}?a=%2F", data="3", headers={"X-Token": "x"}) as answer:
                assert json.loads(await answer.text()) == {"query": "a=/", "body": "3", "token": "x"}
        async with session.get(f"{base}/missing") as answer:
            assert (answer.status, await answer.json()) == (404, {"reason": "no"})
        await runner.cleanup()
        async with session.get(f"{base}/gone") as answer:
            assert answer.status == 502
    await recorder.close()
    template = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/partitions"
    assert recorder.requests == {f"PUT {template} 200": 2, "GET /missing 404": 1, "GET /gone 502": 1}


def test_work_runs_in_the_loop_of_the_relays() -> None:
    async def number() -> int:
        return 7

    with RelayLoop() as loop:
        assert loop.run(number()) == 7
