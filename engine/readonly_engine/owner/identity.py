"""Credentials of a connection to the owner: those of the client."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandConnect

TLS_METHOD = "tls"
"""Authentication method of TLS certificates, which the client's own connection proves: they cannot be passed on."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The credentials of a CONNECT; clients with equal ones share connections to the owner.

    Pulsar's proxy names the original principal of each client. It is a part of the identity, and is sent on: otherwise the
    clients would act with the proxy's own role.

    Attributes:
        auth_method: name of the authentication method; empty for none.
        auth_data: the credentials; never printed.
        original_principal: the principal behind a proxy.
        original_auth_method: its authentication method.
        original_auth_data: its credentials; never printed.
        proxy_version: the proxy's version; only a proxy sends it.
        connection_number: the client connection for which credentials of several rounds hold; 0 for shared credentials.
    """

    auth_method: str = ""
    auth_data: bytes = field(default=b"", repr=False)
    original_principal: str = ""
    original_auth_method: str = ""
    original_auth_data: str = field(default="", repr=False)
    proxy_version: str = ""
    connection_number: int = 0

    @classmethod
    def of(cls, connect: CommandConnect) -> Identity:
        """Return the identity in a client's CONNECT."""
        return cls(
            connect.auth_method_name,
            connect.auth_data,
            connect.original_principal,
            connect.original_auth_method,
            connect.original_auth_data,
            connect.proxy_version,
        )

    @property
    def anonymous(self) -> bool:
        """Whether there are no credentials that could be wrong, or expire."""
        return self.auth_method in {"", "none"} and not self.original_principal

    @property
    def bound_to_certificate(self) -> bool:
        """Whether the credentials are a TLS certificate, which only the client itself can present."""
        return TLS_METHOD in {self.auth_method, self.original_auth_method}

    @property
    def refreshable(self) -> bytes:
        """The credentials that the owner asks to renew: those of the original principal, if present (ServerCnx)."""
        return self.original_auth_data.encode() if self.original_auth_data else self.auth_data

    def with_credentials(self, data: bytes) -> Identity:
        """Return the identity with newer credentials.

        Raises:
            UnicodeDecodeError: the credentials of an original principal are not UTF-8.
        """
        if self.original_auth_data:
            return replace(self, original_auth_data=data.decode())
        return replace(self, auth_data=data)

    def apply_to(self, connect: CommandConnect) -> None:
        """Set the fields of a CONNECT."""
        if self.auth_method:
            connect.auth_method_name = self.auth_method
            connect.auth_data = self.auth_data
        for name in ("original_principal", "original_auth_method", "original_auth_data", "proxy_version"):
            if value := getattr(self, name):
                setattr(connect, name, value)


ANONYMOUS = Identity()
"""The identity without credentials."""
