"""Texts for refused connections to ZooKeeper and refused requests: the cause, and the option or right that is missing."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, NamedTuple

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError

from readonly_engine.metadata.security import LoginScheme
from readonly_engine.net.digest_md5 import LoginError

if TYPE_CHECKING:
    from readonly_engine.metadata.security import StoreSecurity

_WRONG_HOST: Final = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""

_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")
"""OpenSSL's reasons where the server does not answer in TLS, or closes the connection."""


class Refusal(NamedTuple):
    """The reason why a connection cannot be used.

    Attributes:
        text: the reason and the remedy.
        final: whether another attempt fails too, unless someone changes a setting.
    """

    text: str
    final: bool


def refusal_of(error: BaseException, where: str, security: StoreSecurity) -> Refusal | None:
    """Explain why a connection to a ZooKeeper server failed; None if it simply is not reachable.

    Args:
        error: the error of kazoo's, or its cause.
        where: HOST:PORT.
        security: the settings of the connection.
    """
    if isinstance(error, LoginError):
        return Refusal(f"{where}: {error}", final=True)
    if isinstance(error, AuthFailedError | SessionClosedRequireSaslError):
        return _login_refused(where, security)
    cause = error.__context__ if isinstance(error, ConnectionDropped) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _untrusted(cause, where, security)
    if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
        return _certificate_refused(cause, where, security)
    if security.tls is not None and (
        isinstance(cause, ConnectionResetError) or (isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS)
    ):
        return Refusal(
            f"{where} closes the connection at the TLS handshake; the port must be ZooKeeper's secureClientPort",
            final=False,
        )
    if isinstance(error, ConnectionDropped) and (cause is None or isinstance(cause, ConnectionResetError)):
        wrong = (
            f"it does not accept the certificate of {security.option('tls-certificate')}"
            if security.tls is not None
            else f"the port is for TLS, which needs {security.option('tls-trust-certificates')}"
        )
        return Refusal(f"{where} closes the connection at its first request: it has no quorum, or {wrong}", final=False)
    return None


def _login_refused(where: str, security: StoreSecurity) -> Refusal:
    option = security.option("login-file")
    if security.login_file is None:
        return Refusal(f"{where} serves only clients that log in; give {option}", final=True)
    if security.scheme is LoginScheme.DIGEST:
        return Refusal(f"{where} refuses the login of {option}, with the scheme digest", final=True)
    return Refusal(
        f"{where} refuses the login of {option} {security.login_file}; "
        "its user and password must be in the section Server of ZooKeeper's JAAS file",
        final=True,
    )


def _untrusted(error: ssl.SSLCertVerificationError, where: str, security: StoreSecurity) -> Refusal:
    if error.verify_code in _WRONG_HOST:
        remedy = f"connect by a host that it names, or set {security.option('tls-hostname-verification')} to false"
        return Refusal(f"the certificate of {where} does not name this host; {remedy}", final=True)
    return Refusal(
        f"the certificate of {where} is not trusted: {error.verify_message}; "
        f"its authority must be in {security.option('tls-trust-certificates')}",
        final=True,
    )


def _certificate_refused(error: ssl.SSLError, where: str, security: StoreSecurity) -> Refusal:
    reason = (error.reason or "").rpartition("ALERT_")[2].replace("_", " ").lower()
    certificate = security.option("tls-certificate")
    if security.tls is None or security.tls.certificate is None:
        return Refusal(
            f"{where} refuses the connection without a client certificate ({reason}); "
            f"give {certificate} and {security.option('tls-key')}",
            final=True,
        )
    return Refusal(
        f"{where} refuses the client certificate {security.tls.certificate} ({reason}); "
        f"{certificate} must be valid, and of an authority that ZooKeeper trusts",
        final=True,
    )


NEEDED_RIGHTS: Final = {
    "exists_async": "read",
    "get_async": "read",
    "get_children_async": "read",
    "set_async": "write",
    "create_async": "create",
    "ensure_path_async": "create",
    "delete_async": "delete",
}
"""Right that a request of kazoo's needs, by its function. CREATE and DELETE are rights on the parent.

In ZooKeeper 3.9.4 a request whether a node exists needs READ, and a watch without READ does not fire (tried).
"""


def missing_right(right: str, path: str, hosts: str, user: str, security: StoreSecurity) -> str:
    """Return the text for a request that lacks a right.

    Args:
        right: the right.
        path: the node that must grant it.
        hosts: the servers.
        user: the user that is logged in; empty for none.
        security: the settings of the connection.
    """
    who = f"user {user}" if user else "a client without a login"
    remedy = "grant it to that user" if user else f"give {security.option('login-file')}, or grant it to everyone"
    return f"ZooKeeper at {hosts} refuses {who}: the right {right} on {path} is missing; {remedy} with setAcl"
