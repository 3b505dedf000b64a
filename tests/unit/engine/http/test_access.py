"""TLS and token of the HTTP port, with real sockets, on both event loops."""

import asyncio
import base64
import http.client
import json
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop
from aiohttp import ClientSession, TCPConnector, web
from readonly_engine.http.access import TOKEN_HEADER, HttpAccess
from readonly_engine.http.guard import HttpBounds, HttpPort
from readonly_engine.http.status.members import MemberReader
from readonly_engine.net.tls import TlsError, TlsFiles
from readonly_engine.status.document import encode
from readonly_engine.status.state import MemberState

from devstack.common.certificates import issue, make_authority
from tests.support.states import SMALL
from tests.support.waiting import until

TOKEN = "the-token-of-the-port"
GET = b"GET /figures HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the-token-of-the-port\r\n\r\n"
LARGE = GET.replace(b"/figures", b"/large")
LARGE_BYTES = 32 << 20


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"], autouse=True)
def loop_factory(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tls")
    make_authority(made / "ca.pem", "authority")
    for name in ("first", "second"):
        issue(
            made / "ca.pem",
            made / f"{name}.pem",
            f"/CN={name}",
            usages="digitalSignature",
            alternatives=["DNS:localhost"],
        )
    return made


@pytest.fixture
def files(folder, tmp_path):
    """Certificate, key and token as a broker has them; tests change them."""
    copy(folder, tmp_path, "first")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return tmp_path


def copy(folder, to, name):
    (to / "tls.crt").write_bytes((folder / f"{name}.pem").read_bytes())
    (to / "tls.key").write_bytes((folder / f"{name}.key").read_bytes())


def access_of(folder, files, *, tls=True, token=True):
    own = TlsFiles("tls", None, files / "tls.crt", files / "tls.key")
    peers = TlsFiles("peer-tls", folder / "ca.pem")
    return HttpAccess(own if tls else None, files / "token" if token else None, peers if tls else None)


@asynccontextmanager
async def serving(access, **bounds):
    async def answer(request):
        if request.path == "/large":
            return web.Response(body=bytes(LARGE_BYTES))
        return web.json_response(encode(SMALL)) if request.path == "/status" else web.Response(text="ok\n")

    app = web.Application()
    for path in ("/healthz", "/readyz", "/figures", "/large", "/status"):
        app.router.add_get(path, answer)
    port = HttpPort(app, HttpBounds(**({"first_request_s": 60.0, "answer_s": 60.0} | bounds)), access)
    await port.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await port.close()


def trusting(folder):
    return ssl.create_default_context(cafile=folder / "ca.pem")


async def status(port, path, folder=None, **headers):
    """Answer to a client that the standard library makes."""

    def get():
        if folder is None:
            connection = http.client.HTTPConnection("localhost", port.port, timeout=30)
        else:
            connection = http.client.HTTPSConnection("localhost", port.port, timeout=30, context=trusting(folder))
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, answer.headers.get("WWW-Authenticate"), text

    return await asyncio.to_thread(get)


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def test_every_path_but_those_of_the_kubelet_needs_the_token(folder, files):
    async with serving(access_of(folder, files)) as port:
        for path in ("/healthz", "/readyz"):
            assert (await status(port, path, folder))[0] == 200
        for path in ("/figures", "/nowhere", "/healthz/", "/healthz/../figures", "//healthz"):
            code, challenge, text = await status(port, path, folder)
            assert (code, TOKEN.encode() in text) == (401, False)
            assert challenge == 'Bearer realm="pulsar-readonly", Basic realm="pulsar-readonly"'
        given = [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic("", TOKEN), basic("admin", TOKEN)]
        assert [(await status(port, "/figures", folder, Authorization=one))[0] for one in given] == [200] * 4
        assert (await status(port, "/figures", folder, **{TOKEN_HEADER: TOKEN}))[0] == 200
        wrong = [
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {TOKEN}x",
            f"Basic {TOKEN}",
            basic(TOKEN, ""),
            f"Digest {TOKEN}",
            "Basic é",
        ]
        assert [(await status(port, "/figures", folder, Authorization=one))[0] for one in wrong] == [401] * len(wrong)


async def test_changed_files_count_at_once_and_unusable_ones_do_not(folder, files):
    async with serving(access_of(folder, files)) as port:

        async def name():
            _, writer = await asyncio.open_connection("localhost", port.port, ssl=trusting(folder))
            (((_, found),),) = writer.get_extra_info("peercert")["subject"]
            writer.close()
            return found

        assert await name() == "first"
        (files / "tls.crt").write_text("no certificate")
        assert await name() == "first"
        copy(folder, files, "second")
        assert await name() == "second"
        (files / "token").write_text("")
        assert (await status(port, "/figures", folder, Authorization=f"Bearer {TOKEN}"))[0] == 200
        (files / "token").write_text("another")
        assert (await status(port, "/figures", folder, Authorization=f"Bearer {TOKEN}"))[0] == 401
        assert (await status(port, "/figures", folder, Authorization="Bearer another"))[0] == 200


async def test_a_token_without_tls_is_for_this_machine(folder, files):
    access = access_of(folder, files, tls=False)
    async with serving(access) as port:
        assert (await status(port, "/figures"))[0] == 401
        assert (await status(port, "/figures", Authorization=f"Bearer {TOKEN}"))[0] == 200
    assert access.headers_for("http://127.0.0.1:8080/") == {"Authorization": f"Bearer {TOKEN}"}
    assert access.headers_for("http://demo-1.demo:8080/") == {}
    assert access.headers_for("https://demo-1.demo:8080/") != {}


@pytest.mark.parametrize("lacking", ["tls.crt", "tls.key", "token"])
def test_a_missing_file_is_an_error_at_the_start(folder, files, lacking):
    (files / lacking).unlink()
    with pytest.raises((OSError, TlsError), match=lacking.replace(".", r"\.")):
        access_of(folder, files)


async def test_a_request_may_come_together_with_the_end_of_the_handshake(folder, files):
    async with serving(access_of(folder, files)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trusting(folder).wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(1 << 16))
        client.write(GET)
        writer.write(outgoing.read())  # Finished and the request in one packet
        answer = b""
        while b"ok\n" not in answer:
            incoming.write(await reader.read(1 << 16))
            try:
                answer += client.read(1 << 16)
            except ssl.SSLWantReadError:
                continue
        assert answer.startswith(b"HTTP/1.1 200")
        writer.close()


async def test_connections_in_the_handshake_count_and_have_a_deadline(folder, files):
    async with serving(access_of(folder, files), connections=3, first_request_s=0.5) as port:
        strangers = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(9)]
        strangers[0][1].write(GET)  # no TLS
        assert len(port) <= 3
        assert (await status(port, "/healthz", folder))[0] == 200
        for reader, writer in strangers:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        await until(lambda: len(port) == 0)


async def test_responses_that_clients_do_not_read_are_bounded_with_tls_too(folder, files):
    async with serving(access_of(folder, files), unread_bytes=40 << 20) as port:
        made = [
            await asyncio.open_connection("localhost", port.port, ssl=trusting(folder), limit=1 << 14) for _ in range(3)
        ]
        for _, writer in made:
            writer.transport.pause_reading()
            writer.write(LARGE)
        await until(lambda: len(port) < 3)
        for _, writer in made:
            writer.transport.abort()
        await until(lambda: len(port) == 0)


async def test_another_process_of_the_broker_is_known_by_the_certificate_not_by_its_name(folder, files):
    access = access_of(folder, files)
    async with serving(access) as port:
        url = f"https://127.0.0.1:{port.port}/figures"
        async with ClientSession(connector=TCPConnector(force_close=True)) as session:
            async with session.get(url, headers=access.headers_for(url), ssl=access.own_certificate()) as response:
                assert response.status == 200
            copy(folder, files, "second")  # both processes see the renewed pair
            async with session.get(url, headers=access.headers_for(url), ssl=access.own_certificate()) as response:
                assert response.status == 200


async def test_the_page_of_the_pool_reads_the_other_brokers(folder, files):
    access = access_of(folder, files)
    async with serving(access) as port:
        for host, works in (("localhost", True), ("127.0.0.1", False)):
            member = MemberState(SMALL.broker.url, f"https://{host}:{port.port}/", 0, "", itself=False)
            reader = MemberReader(lambda _: None, access)
            (answer,) = await reader.read(SMALL.broker.pool, SMALL.broker.pool_uid, [member])
            assert (answer.status is not None) is works, json.dumps(answer.error)
