"""Refusals by ZooKeeper: the text names the option, and only some of them end a broker at its start."""

import ssl
from pathlib import Path

import pytest
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError
from readonly_engine.metadata.security import LoginScheme, StoreSecurity
from readonly_engine.metadata.zookeeper_refusals import missing_right, refusal_of
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.tls import TlsFiles

TLS = StoreSecurity(TlsFiles("metadata-store-tls", Path("/ca.pem")))
CERTIFICATE = StoreSecurity(TlsFiles("metadata-store-tls", Path("/ca.pem"), Path("/c.pem"), Path("/c.key")))
LOGIN = StoreSecurity(login_file=Path("/login"))
DIGEST = StoreSecurity(login_file=Path("/login"), scheme=LoginScheme.DIGEST)
NONE = StoreSecurity()


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


def untrusted(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "verify failed")
    error.verify_code, error.verify_message = code, "self-signed"
    return error


def dropped(cause: BaseException | None = None) -> ConnectionDropped:
    """A connection that kazoo lost, as kazoo reports it."""
    found = ConnectionDropped("socket connection broken")
    found.__context__ = cause
    return found


@pytest.mark.parametrize(
    ("error", "security", "text", "final"),
    [
        (dropped(untrusted(19)), TLS, "self-signed; its authority must be in metadata-store-tls-trust", True),
        (untrusted(62), TLS, "a host that it names, or set metadata-store-tls-hostname-v", True),
        (dropped(untrusted(64)), TLS, "does not name this host", True),
        (dropped(tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED")), TLS, "required); give metadata-store-tls-c", True),
        (
            dropped(tls_error("SSLV3_ALERT_CERTIFICATE_EXPIRED")),
            CERTIFICATE,
            "client certificate /c.pem (certificate exp",
            True,
        ),
        (dropped(tls_error("WRONG_VERSION_NUMBER")), TLS, "the port must be ZooKeeper's secureClientPort", False),
        (dropped(ConnectionResetError()), TLS, "the port must be ZooKeeper's secureClientPort", False),
        (dropped(), NONE, "the port is for TLS, which needs metadata-store-tls-trust-certificates", False),
        (dropped(), CERTIFICATE, "does not accept the certificate of metadata-store-tls-certificate", False),
        (AuthFailedError(), LOGIN, "refuses the login of metadata-store-login-file /login; its user and", True),
        (AuthFailedError(), DIGEST, "refuses the login of metadata-store-login-file, with the scheme digest", True),
        (AuthFailedError(), NONE, "serves only clients that log in; give metadata-store-login-file", True),
        (SessionClosedRequireSaslError(), NONE, "only clients that log in; give metadata-store-login-file", True),
        (LoginError("metadata-store-login-file: gone"), LOGIN, "zk:1: metadata-store-login-file: gone", True),
    ],
)
def test_refusals(error: BaseException, security: StoreSecurity, text: str, final: bool) -> None:
    found = refusal_of(error, "zk:1", security)
    assert found is not None
    assert text in found.text
    assert found.text.removeprefix("the certificate of ").startswith("zk:1")
    assert found.final == final


@pytest.mark.parametrize("error", [dropped(ConnectionRefusedError()), dropped(TimeoutError()), ValueError("other")])
def test_a_server_that_is_not_there_refuses_nothing(error: BaseException) -> None:
    assert refusal_of(error, "zk:1", TLS) is None


def test_options_of_spark_have_its_names() -> None:
    security = StoreSecurity(camel_case=True)
    assert security.option("tls-trust-certificates") == "metadataStoreTls.trustCertificates"
    assert security.option("login-file") == "metadataStoreLoginFile"
    assert security.option("node-rights") == "metadataStoreNodeRights"


def test_a_missing_right_names_user_right_and_node() -> None:
    text = missing_right("read", "/bookies", "zk:1", "reader", LOGIN)
    assert text == (
        "ZooKeeper at zk:1 refuses user reader: the right read on /bookies is missing; grant it to that user with setAcl"
    )
    text = missing_right("create", "/", "zk:1", "", NONE)
    assert (
        "refuses a client without a login: the right create on / is missing; give metadata-store-login-file, or" in text
    )


def test_the_login_file_is_named_in_its_error(tmp_path: Path) -> None:
    with pytest.raises(LoginError, match=r"^metadata-store-login-file: .* cannot be read"):
        StoreSecurity(login_file=tmp_path / "none").login()
    assert NONE.login() is None
