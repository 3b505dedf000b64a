"""Failure of a request or a connection, by kind, and its remedy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class FailureKind(StrEnum):
    """Kind of a failure."""

    NAME = "name"
    """The host name does not resolve."""
    REFUSED = "refused"
    """Nothing listens at the port."""
    TIMEOUT = "timeout"
    """No answer in time."""
    TLS_HOST = "tls-host"
    """The certificate names another host."""
    TLS_TRUST = "tls-trust"
    """The certificate is not trusted."""
    TLS = "tls"
    """The TLS handshake failed otherwise."""
    CREDENTIALS = "credentials"
    """The server does not accept the credentials, or requires some."""
    RIGHTS = "rights"
    """The server knows this client, and does not permit the request."""
    OTHER = "other"
    """Another reason; the text has it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure.

    Attributes:
        kind: its kind.
        text: the reason, for users.
    """

    kind: FailureKind
    text: str


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """Options of the connections to one kind of server, for remedies.

    Attributes:
        address: the option with the address.
        tls_prefix: prefix of the TLS options.
        credentials: the option with the credentials.
        permission: the permission that is needed, with the command or place to give it.
    """

    address: str
    tls_prefix: str
    credentials: str
    permission: str


TOKEN_FILE: Final = "admin-token-file"  # noqa: S105 - the name of an option
"""Option of the pool's credentials, unless the options have others."""

BROKERS = PeerOptions(
    "service-url",
    "broker-tls",
    TOKEN_FILE,
    "the right consume on the served topics (pulsar-admin grant-permission)",
)
ADMIN_API = PeerOptions(
    "admin-url",
    "broker-tls",
    TOKEN_FILE,
    "the right consume on the served topics (pulsar-admin grant-permission)",
)
METADATA_STORE = PeerOptions(
    "metadata-store-url", "metadata-store-tls", "metadata-store-login-file", "the missing right, by setAcl"
)
BOOKKEEPER_STORE = replace(METADATA_STORE, address="bookkeeper-metadata-store-url")
BOOKIES = PeerOptions(
    "the bookie's advertisedAddress",
    "bookie-tls",
    "bookie-login-file",
    "access, by saslJaasClientAllowedIds of the bookies",
)


def remedy_of(failure: Failure, options: PeerOptions) -> str:
    """Return the remedy for a failure at one kind of server."""
    prefix = options.tls_prefix
    match failure.kind:
        case FailureKind.NAME:
            return f"correct the host in {options.address}, or let the DNS of this machine resolve it"
        case FailureKind.REFUSED:
            return f"start the server, or correct the port in {options.address}"
        case FailureKind.TIMEOUT:
            return f"let this machine reach the address (firewall, network policy), or correct {options.address}"
        case FailureKind.TLS_HOST:
            return f"connect by a host that the certificate names, or set {prefix}-hostname-verification to false"
        case FailureKind.TLS_TRUST:
            return f"add the authority of the certificate to {prefix}-trust-certificates"
        case FailureKind.TLS:
            return f"check that the port has TLS ({options.address}), and {prefix}-certificate with its key"
        case FailureKind.CREDENTIALS:
            return f"set {options.credentials} to valid credentials"
        case FailureKind.RIGHTS:
            return f"give the role or user of {options.credentials} {options.permission}"
        case FailureKind.OTHER:
            return f"check {options.address}, and the log of the server"


def superuser_by(option: str) -> str:
    """Return the remedy that gives the pool's role the rights of a superuser.

    Args:
        option: option of the pool's credentials.
    """
    return f"set {option} to a superuser's token" if option == TOKEN_FILE else f"make the role of {option} a superuser"


def allowed_by(option: str, action: str) -> str:
    """Return the remedy that lets the pool's role do something; the option is as for `superuser_by`."""
    if option == TOKEN_FILE:
        return f"set {option} to a token whose role may {action}"
    return f"let the role of {option} {action}"
