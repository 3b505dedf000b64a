"""TLS to bookies: what to trust, and who we are."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class BookieTls:
    """How connections to bookies are encrypted.

    Attributes:
        ca: certificates of the authorities that sign the bookies', PEM; None for those that the system trusts.
        certificate: our own certificate (chain), PEM; bookies ask for it unless tlsClientAuthentication is false.
        key: its private key, PEM.
        verify_hostname: whether a bookie's certificate must name the host that it is reached at.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Load the files.

        Raises:
            ValueError: a file is missing or is not what it should be; says which.
        """
        if (self.certificate is None) != (self.key is None):
            raise ValueError("TLS to bookies: give both a certificate and its key, or neither")
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            raise ValueError(f"TLS to bookies: no authorities can be read from {self.ca}: {error}") from error
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except OSError as error:
                raise ValueError(
                    f"TLS to bookies: {self.certificate} with key {self.key} cannot be used: {error}"
                ) from error
        context.check_hostname = self.verify_hostname
        return context
