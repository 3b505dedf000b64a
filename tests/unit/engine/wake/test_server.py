"""The waker on real sockets: readiness, TLS, and what becomes of its clients."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from readonly_engine.config.kinds import Address
from readonly_engine.net.tls import TlsFiles
from readonly_engine.wake.arming import REARM_S
from readonly_engine.wake.command import main
from readonly_engine.wake.connections import HALF_OPEN_S, LIFETIME_S
from readonly_engine.wake.server import StartError, WakeServer
from readonly_engine.wake.settings import WakeConfig

from devstack.pulsar.security import Credentials
from tests.support.waiting import pass_time, until
from tests.unit.engine.wake.test_session import CONNECT, TOPIC, command

ANY = Address("127.0.0.1", 0)
LOOKUP = command("LOOKUP", **TOPIC, request_id=1)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    made = Credentials.make(tmp_path_factory.mktemp("wake"))
    made.certificate("pool")
    made.certificate("client")
    return made


class Running:
    """A waker on free ports, for `async with`."""

    def __init__(self, **options):
        self.server = WakeServer()
        self._config = WakeConfig(ready=ANY, **({"listen": (ANY,)} | options))

    async def __aenter__(self):
        await self.server.start(self._config)
        return self.server

    async def __aexit__(self, *_):
        await self.server.close()


async def open_to(port, data=CONNECT, **options):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    writer.write(data)
    return reader, writer


async def is_ready(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_a_request_ends_readiness_and_a_minute_later_it_is_back():
    async with Running() as server:
        port = server.ready_port
        server._ready_address = Address("127.0.0.1", port)
        reader, writer = await open_to(server.ports[0])
        assert await reader.read(1)
        assert await is_ready(port)  # a connection alone wakes nobody
        writer.write(LOOKUP)
        await until(lambda: not server.arming.armed)
        assert not await is_ready(port)
        pass_time(REARM_S)
        server.schedule()
        await until(lambda: server.ready_port == port)
        assert await is_ready(port)
        writer.close()


async def test_clients_are_held_until_the_end_and_then_closed():
    running = Running()
    async with running as server:
        clients = [await open_to(server.ports[0], CONNECT + LOOKUP) for _ in range(3)]
        await until(lambda: not server.arming.armed and len(server.connections) == 3)
        for reader, _ in clients:
            await reader.readexactly(4)  # CONNECTED, and nothing else
    for reader, writer in clients:
        await asyncio.wait_for(reader.read(), 30)
        writer.close()
    assert not len(server.connections)


@pytest.mark.parametrize(("data", "seconds"), [(b"", HALF_OPEN_S), (CONNECT, LIFETIME_S)], ids=["silent", "idle"])
async def test_no_client_stays_for_ever(data, seconds):
    async with Running() as server:
        reader, writer = await open_to(server.ports[0], data)
        await until(lambda: len(server.connections) == 1)
        if data:
            await reader.readexactly(4)
        pass_time(seconds)
        server.schedule()
        await until(lambda: not len(server.connections))
        writer.close()


async def test_garbage_closes_the_connection_and_wakes_nobody():
    async with Running() as server:
        reader, writer = await open_to(server.ports[0], b"GET / HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 30) == b""
        assert server.arming.armed
        writer.close()


async def test_tls_has_the_certificate_of_the_pool_and_requires_one_of_clients(credentials):
    folder = credentials.folder
    options = {
        "listen": (),
        "tls_listen": (ANY,),
        "tls_certificate": folder / "pool.pem",
        "tls_key": folder / "pool.key",
        "tls_trust_certificates": credentials.authority,
    }
    client = TlsFiles("x", credentials.authority, folder / "client.pem", folder / "client.key", False)
    stranger = TlsFiles("x", credentials.authority, hostname_verification=False)

    async with Running(**options) as server:
        port = server.ports[0]
        with suppress(OSError):  # TLS 1.3 refuses after the client's handshake
            reader, _ = await open_to(port, CONNECT + LOOKUP, ssl=stranger.client_context())
            assert await reader.read() == b""
        assert server.arming.armed
        reader, writer = await open_to(port, CONNECT + LOOKUP, ssl=client.client_context())
        assert await reader.readexactly(4)
        await until(lambda: not server.arming.armed)
        writer.close()


@pytest.mark.parametrize("option", ["listen", "tls_certificate"])
async def test_what_cannot_be_used_is_named(option, credentials, tmp_path):
    async with Running() as taken:
        address = Address("127.0.0.1", taken.ports[0])
        wrong = (
            {"listen": (address,)}
            if option == "listen"
            else {"tls_listen": (ANY,), "tls_certificate": tmp_path / "gone.pem", "tls_key": tmp_path / "gone.key"}
        )
        server = WakeServer()
        with pytest.raises(StartError, match=rf"^--{option.replace('_', '-')}"):
            await server.start(WakeConfig(ready=ANY, **({"listen": (ANY,)} | wrong)))
        await server.close()


def test_the_command_runs_until_sigterm():
    arguments = [sys.executable, "-m", "readonly_engine.command", "wake", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*arguments, "--ready", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert "waiting for a client on" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ready", "8080"], "--ready: must be HOST:PORT, not '8080'"),
        (["--ready", "*:8080"], "--listen is missing"),
        (["--ready", "*:8080", "--listen", "6650"], "--listen: must be a list of HOST:PORT, not ['6650']"),
        (["--ready", "*:8080", "--tls-listen", "*:6651"], "--tls-certificate is missing"),
        (["--ready", "*:8080", "--tls-listen", "*:6651", "--tls-certificate", "a"], "--tls-key is missing"),
    ],
)
def test_one_error_names_the_option(arguments, words, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"pulsar-readonly wake: {words}")
