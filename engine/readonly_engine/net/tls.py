"""TLS contexts from PEM files, reloaded after a change, so that certificates are renewed without a restart."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0

T = TypeVar("T")


class TlsError(ValueError):
    """A PEM file cannot be used; the text names its option."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one kind of connection.

    Attributes:
        prefix: prefix of the options: PREFIX-trust-certificates, PREFIX-certificate, PREFIX-key.
        trust: CA certificates for peers. None: a client trusts those of the system, a server requires no client certificate.
        certificate: own certificate, with its chain.
        key: private key of the certificate, not encrypted; None if the certificate's file contains it.
        hostname_verification: whether a server's certificate must match its host name.
    """

    prefix: str
    trust: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    hostname_verification: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """The configured files."""
        return tuple(path for path in (self.trust, self.certificate, self.key) if path is not None)

    def client_context(self) -> ssl.SSLContext:
        """Make a context for outgoing connections.

        Raises:
            TlsError: a file cannot be used.
        """
        context = ssl.create_default_context()
        if self.trust is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._load_trust(context, self.trust)
        if self.certificate is not None:
            self._load_certificate(context, self.certificate)
        context.check_hostname = self.hostname_verification
        return context

    def server_context(self) -> ssl.SSLContext:
        """Make a context for a listener.

        Raises:
            TlsError: a file cannot be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            self._load_certificate(context, self.certificate)
        if self.trust is not None:
            self._load_trust(context, self.trust)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _load_trust(self, context: ssl.SSLContext, trust: Path) -> None:
        try:
            context.load_verify_locations(cafile=trust)
        except OSError as error:
            raise TlsError(
                f"{self.prefix}-trust-certificates: {trust} cannot be used: {_reason(error)}; "
                "it must be a file of PEM certificates"
            ) from error

    def _load_certificate(self, context: ssl.SSLContext, certificate: Path) -> None:
        key = self.key or certificate
        for option, path in (("certificate", certificate), ("key", key)):
            try:
                path.read_bytes()
            except OSError as error:
                raise TlsError(f"{self.prefix}-{option}: {path} cannot be read: {_reason(error)}") from error
        try:
            context.load_cert_chain(
                certificate, key, password=""
            )  # without a password here, OpenSSL prompts for that of an encrypted key on the terminal
        except OSError as error:
            raise TlsError(
                f"{self.prefix}-certificate and {self.prefix}-key: {certificate} with {key} cannot be used: {_reason(error)}; "
                "they must be a PEM certificate and its own PEM key, not encrypted"
            ) from error


class Reloaded(Generic[T]):
    """A value made from files, and made again after a change of the files. If that fails, the last valid value stays in force.

    Args:
        files: the files.
        make: makes the value; raises OSError or ValueError.

    Raises:
        OSError: the first call of `make` failed.
        ValueError: the first call of `make` failed.
    """

    def __init__(self, files: Sequence[Path], make: Callable[[], T]) -> None:
        self._files = files
        self._make = make
        self._last_signatures = self._signatures()
        self._made = make()

    def get(self) -> T:
        """Return the current value. Checks the files, at a `stat` for each."""
        signatures = self._signatures()
        if signatures != self._last_signatures:
            self._last_signatures = signatures
            try:
                self._made = self._make()
            except (OSError, ValueError) as error:
                log.warning("reload failed, the last valid files stay in force: error=%s", error)
            else:
                log.info("files reloaded: files=%s", ", ".join(map(str, self._files)))
        return self._made

    def _signatures(self) -> list[tuple[int, int, int] | None]:
        return [_identity_of(path) for path in self._files]


class ClientTls:
    """TLS of outgoing connections.

    Args:
        files: the PEM files.

    Attributes:
        certificate: file of the client certificate; None without one.

    Raises:
        TlsError: a file cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        self.certificate = files.certificate
        self._context = Reloaded(files.files, files.client_context)

    def context(self) -> ssl.SSLContext:
        """Return the current context."""
        return self._context.get()


def _identity_of(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes with the file, None without one. A mounted Secret changes by a swap of symbolic links."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _reason(error: OSError) -> str:
    return (isinstance(error, ssl.SSLError) and error.reason) or error.strerror or str(error)
