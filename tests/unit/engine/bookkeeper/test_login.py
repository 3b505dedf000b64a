"""Logins at bookies, without sockets, and their steps on a real socket."""

import asyncio
import gc
import hashlib
import re
from pathlib import Path

import pytest
from readonly_engine.bookkeeper import connect
from readonly_engine.bookkeeper.connect import BookieSecurity, open_connection
from readonly_engine.bookkeeper.connection import BookieConnection
from readonly_engine.bookkeeper.errors import BookieRefusedError, BookieUnavailableError, failed_request
from readonly_engine.bookkeeper.login import NO_PROVIDER, SASL, SaslLogin
from readonly_engine.net.digest_md5 import Credentials
from readonly_engine.wire.bookie_auth import encode_auth
from readonly_engine.wire.bookkeeper_pb2 import AUTH, EOK, EUA, AuthMessage, PacketHeader, Request, Response

CHALLENGE = b'realm="bookkeeper",nonce="n",qop="auth",algorithm=md5-sess,charset=utf-8'


def reply(status: int = EOK, plugin: str = SASL, payload: bytes = b"") -> bytes:
    header = PacketHeader(version=3, operation=AUTH, txn_id=1)
    return Response(
        header=header, status=status, auth_message=AuthMessage(plugin=plugin, payload=payload)
    ).SerializeToString()


def login() -> SaslLogin:
    return SaslLogin(Credentials("pool", "word"), "bookie-login-file")


def proof_of(answer: bytes) -> bytes:
    """The server's proof for an answer of the client (RFC 2831, 2.1.3)."""
    nonce = re.search(rb'cnonce="([^"]*)"', answer)[1]

    def md5(data: bytes) -> bytes:
        return hashlib.md5(data, usedforsecurity=False).digest()

    first = md5(md5(b"pool:bookkeeper:word") + b":n:" + nonce).hex().encode()
    second = md5(b":bookkeeper/bookkeeper").hex().encode()
    return b"rspauth=" + md5(b":".join((first, b"n", b"00000001", nonce, b"auth", second))).hex().encode()


def test_a_bookie_without_a_provider_serves_everyone() -> None:
    assert login().received(reply(plugin=NO_PROVIDER)) is None


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (reply(EUA), "it refuses the login of bookie-login-file as pool$"),
        (reply(plugin="Other"), "as pool, whose authentication provider is Other"),
        (reply(payload=b"?"), "bookie-login-file: the server's challenge is malformed"),
    ],
)
def test_refused_logins(frame: bytes, text: str) -> None:
    with pytest.raises(BookieRefusedError, match=text):
        login().received(frame)


def test_a_login_without_an_answer_is_refused_only_after_a_challenge() -> None:
    steps = login()
    steps.begin()
    assert not steps.unanswered().refused, "the bookie answers nothing at all"
    steps.received(reply(payload=CHALLENGE))
    assert steps.unanswered().refused


def test_a_read_without_a_login_names_the_option() -> None:
    assert "give bookie-login-file" in str(failed_request("b:1", EUA, "a read of 1:1"))
    assert "give" not in str(failed_request("b:1", 501, "a read of 1:1"))


async def test_a_connection_is_used_after_its_login(tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text("pool:word")
    seen: list[bytes] = []

    async def bookie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def frame() -> Request:
            return Request.FromString(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))

        def send(payload: bytes) -> None:
            data = reply(payload=payload)
            writer.write(len(data).to_bytes(4, "big") + data)

        await frame()
        send(CHALLENGE)
        send(proof_of((await frame()).auth_message.payload))
        seen.append((await frame()).SerializeToString())
        writer.close()

    server = await asyncio.start_server(bookie, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    security = BookieSecurity(login_file=file)
    connection = await open_connection(BookieConnection, "b", "127.0.0.1", port, security)
    with pytest.raises(BookieUnavailableError, match="closed the connection"):
        await connection.read_entry(1, 2)
    file.write_text("pool")
    with pytest.raises(BookieUnavailableError, match=r"bookie-login-file: .* USER:PASSWORD"):
        await open_connection(BookieConnection, "b", "127.0.0.1", port, security)
    server.close()
    assert Request.FromString(seen[0]).read_request.entry_id == 2
    assert len(encode_auth(1, SASL, b"")) > 4


async def test_a_connection_that_is_given_up_leaves_no_error_behind(tmp_path: Path, monkeypatch) -> None:
    """asyncio would log an exception that nobody retrieves: `pulsar-readonly topic` printed one at its end."""
    file = tmp_path / "login"
    file.write_text("pool:word")
    made = connect._Steps.connection_made
    logged: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: logged.append(found["message"]))
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    opening = asyncio.create_task(
        open_connection(BookieConnection, "b", "127.0.0.1", port, BookieSecurity(login_file=file))
    )

    def cancelled(self: connect._Steps, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        opening.cancel()

    monkeypatch.setattr(connect._Steps, "connection_made", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await opening
    await asyncio.wait_for(ended.wait(), 10)
    server.close()
    await server.wait_closed()
    gc.collect()
    assert logged == []
