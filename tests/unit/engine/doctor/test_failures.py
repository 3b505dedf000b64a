"""Kinds of the errors of the engine's clients."""

import asyncio
import errno
import socket
import ssl

import aiohttp
import pytest
from readonly_engine.bookkeeper.errors import BookieRefusedError, BookieUnavailableError
from readonly_engine.doctor.checks.failure import FailureKind
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.metadata.errors import AccessDeniedError, MetadataUnavailableError
from readonly_engine.owner.errors import AdminRefusedError, OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import ServerError

from devstack.common.certificates import issue, make_authority


def untrusted(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_code = code
    return error


def raised(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (raised(OwnerUnavailableError("x"), socket.gaierror(-2, "unknown")), FailureKind.NAME),
        (raised(OwnerUnavailableError("x"), ConnectionRefusedError(111, "refused")), FailureKind.REFUSED),
        (raised(OwnerUnavailableError("x"), OSError("Multiple exceptions: [Errno 111] a")), FailureKind.REFUSED),
        (raised(OwnerUnavailableError("x"), TimeoutError()), FailureKind.TIMEOUT),
        (raised(OwnerUnavailableError("x"), OSError(errno.EHOSTUNREACH, "no route")), FailureKind.TIMEOUT),
        (raised(BookieUnavailableError("x"), untrusted(62)), FailureKind.TLS_HOST),
        (raised(BookieRefusedError("x"), untrusted(20)), FailureKind.TLS_TRUST),
        (raised(BookieRefusedError("x"), ssl.SSLError("alert")), FailureKind.TLS),
        # Bookies do not answer wrong passwords.
        (raised(BookieRefusedError("x"), TimeoutError()), FailureKind.CREDENTIALS),
        (OwnerRefusedError(ServerError.AuthenticationError, "x"), FailureKind.CREDENTIALS),
        (OwnerRefusedError(ServerError.AuthorizationError, "x"), FailureKind.RIGHTS),
        (OwnerRefusedError(ServerError.ServiceNotReady, "x"), FailureKind.OTHER),
        (AdminRefusedError("x"), FailureKind.RIGHTS),
        (AccessDeniedError("x"), FailureKind.RIGHTS),
        (MetadataUnavailableError("x"), FailureKind.OTHER),
        (OSError("x"), FailureKind.OTHER),
    ],
)
def test_the_kind_of_an_error(error, kind):
    found = failure_of(error)
    assert (found.kind, found.text) == (kind, "x" if str(error) == "x" else str(error))


def test_an_error_without_a_text_gets_one():
    assert failure_of(TimeoutError()).text == "no answer in time"
    assert failure_of(OSError()).text == "OSError"


@pytest.mark.parametrize(
    ("trusted", "host", "kind"),
    [(False, "localhost", FailureKind.TLS_TRUST), (True, "127.0.0.1", FailureKind.TLS_HOST)],
)
async def test_certificates_as_the_http_client_reports_them(trusted, host, kind, tmp_path):
    """The HTTP client has an exception of its own for them, without OpenSSL's code."""
    authority, certificate = tmp_path / "authority.pem", tmp_path / "server.pem"
    make_authority(authority, "test")
    issue(authority, certificate, "/CN=localhost", usages="digitalSignature", alternatives=["DNS:localhost"])
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=server_side)
    port = server.sockets[0].getsockname()[1]
    client_side = ssl.create_default_context(cafile=authority if trusted else None)
    async with server, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError) as raised:
            await session.get(f"https://{host}:{port}/", ssl=client_side)
    assert failure_of(raised.value).kind is kind


def test_the_text_has_no_line_of_pythons_source():
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    assert failure_of(error).text == "[SSL: WRONG_VERSION_NUMBER] wrong version number"
