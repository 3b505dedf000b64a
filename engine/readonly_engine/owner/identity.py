"""As whom a connection speaks to the owner: with the client's own credentials."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandConnect

TLS_METHOD = "tls"
"""The method whose credentials are the client's certificate: they end with its own connection and cannot be passed on."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The credentials of a CONNECT; connections to the owner are shared by clients with equal ones.

    A client that speaks for others (Pulsar's proxy) says for whom: that is part of who it is, and is replayed with the rest.
    Left out, its clients would act with the proxy's own role.

    Attributes:
        auth_method: name of the authentication method, empty for none.
        auth_data: the credentials; never printed.
        original_principal: for whom the client speaks.
        original_auth_method: how that one would prove it.
        original_auth_data: its credentials; never printed.
        proxy_version: the proxy's version, which only a proxy may say.
        connection_number: the client connection that credentials proven in several rounds serve; 0 for shared credentials.
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
        """Who a client says that it is."""
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
        """Whether there is nothing to prove: no credentials that could be wrong, or expire."""
        return self.auth_method in {"", "none"} and not self.original_principal

    @property
    def bound_to_certificate(self) -> bool:
        """Whether the client means its TLS certificate, which only it can show."""
        return TLS_METHOD in {self.auth_method, self.original_auth_method}

    @property
    def refreshable(self) -> bytes:
        """The credentials that the owner asks to renew: those of the original principal where they were given (ServerCnx)."""
        return self.original_auth_data.encode() if self.original_auth_data else self.auth_data

    def with_credentials(self, data: bytes) -> Identity:
        """The same one with newer credentials.

        Raises:
            UnicodeDecodeError: credentials of an original principal that are no text.
        """
        if self.original_auth_data:
            return replace(self, original_auth_data=data.decode())
        return replace(self, auth_data=data)

    def apply_to(self, connect: CommandConnect) -> None:
        """Say all this in a CONNECT."""
        if self.auth_method:
            connect.auth_method_name = self.auth_method
            connect.auth_data = self.auth_data
        for name in ("original_principal", "original_auth_method", "original_auth_data", "proxy_version"):
            if value := getattr(self, name):
                setattr(connect, name, value)


ANONYMOUS = Identity()
"""Who shows no credentials."""
