"""Security of the connections to a metadata store: TLS, a login, and the rights on nodes that brokers create."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from readonly_engine.net.digest_md5 import Credentials, LoginError

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.net.tls import TlsFiles


class LoginScheme(StrEnum):
    """How a broker logs in at ZooKeeper."""

    SASL = "sasl"
    """SASL DIGEST-MD5, against the users of ZooKeeper's JAAS file."""
    DIGEST = "digest"
    """ZooKeeper's own scheme `digest`: it names a user, and only the rights on nodes check the password."""


class NodeRights(StrEnum):
    """Rights on nodes that brokers create in ZooKeeper."""

    CREATOR = "creator"
    """All rights for the login that created the node, none for others."""
    OPEN = "open"
    """All rights for everyone, as Pulsar's own nodes have."""


@dataclass(frozen=True, slots=True)
class StoreSecurity:
    """Security of the connections to a metadata store.

    Attributes:
        tls: files of TLS; None for no encryption.
        login_file: a file with USER:PASSWORD, which is read at each connection; None for no login.
        scheme: how to log in.
        rights: rights on created nodes; None for CREATOR with a login, and OPEN without one.
        camel_case: whether options are named as in Spark, for errors.
    """

    tls: TlsFiles | None = None
    login_file: Path | None = None
    scheme: LoginScheme = LoginScheme.SASL
    rights: NodeRights | None = None
    camel_case: bool = False

    @property
    def created_rights(self) -> NodeRights:
        """The rights on created nodes."""
        if self.rights is not None:
            return self.rights
        return NodeRights.OPEN if self.login_file is None else NodeRights.CREATOR

    def login(self) -> Credentials | None:
        """Read the login; None without one.

        Raises:
            LoginError: the file cannot be used; the text names its option.
        """
        if self.login_file is None:
            return None
        try:
            return Credentials.read(self.login_file)
        except LoginError as error:
            raise LoginError(f"{self.option('login-file')}: {error}") from error

    def option(self, name: str) -> str:
        """Return the name of an option, for errors.

        Args:
            name: such as `tls-key` for metadata-store-tls-key, or metadataStoreTls.key in Spark.
        """
        if not self.camel_case:
            return f"metadata-store-{name}"
        first, *rest = name.removeprefix("tls-").split("-")
        tail = "".join(word.capitalize() for word in rest)
        return (
            f"metadataStoreTls.{first}{tail}" if name.startswith("tls-") else f"metadataStore{first.capitalize()}{tail}"
        )


OPEN_STORE: Final = StoreSecurity()
"""No TLS and no login."""
