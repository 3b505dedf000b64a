"""When certificates expire. Python's ssl module shows that of a peer's certificate only, so this finds the field in the DER.

The structure: RFC 5280, section 4.1, Certificate and Validity.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.net.tls import TlsFiles

MAX_FILE_BYTES: Final = 4 << 20
"""A bundle of all public authorities has about 0.3 MB."""

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime. %y has the same century as RFC 5280 from 69 on; a certificate of before 1969 is none."""


def expires_at(der: bytes) -> float:
    """Return the end of a certificate's validity, in seconds since 1970.

    Args:
        der: the certificate.

    Raises:
        ValueError: it is no certificate.
    """
    try:
        _, certificate, _ = _element(der, 0, _SEQUENCE)
        _, at, _ = _element(der, certificate, _SEQUENCE)
        if der[at] == _VERSION:
            _, _, at = _element(der, at)
        for _ in ("serial number", "algorithm", "issuer"):
            _, _, at = _element(der, at)
        _, begin, _ = _element(der, at, _SEQUENCE)
        _, _, end = _element(der, begin)
        kind, value, after = _element(der, end)
        text = der[value:after].decode("ascii")
        return datetime.strptime(text, _FORMATS[kind]).replace(tzinfo=UTC).timestamp()
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise ValueError("no certificate") from error


def _element(der: bytes, at: int, wanted: int | None = None) -> tuple[int, int, int]:
    """Return the kind of an element, where its value begins, and where it ends."""
    kind, length, begin = der[at], der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, begin = int.from_bytes(der[begin : begin + count], "big"), begin + count
    if begin + length > len(der) or wanted not in (None, kind):
        raise IndexError
    return kind, begin, begin + length


def first_expiry(path: Path) -> float | None:
    """Return when the first of a file's PEM certificates expires, in seconds since 1970; None without a certificate.

    Raises:
        OSError: the file cannot be read.
        ValueError: a certificate is damaged.
    """
    with path.open("rb") as file:
        text = file.read(MAX_FILE_BYTES).decode("ascii", "replace")
    return min((expires_at(ssl.PEM_cert_to_DER_cert(one)) for one in _PEM.findall(text)), default=None)


def first_certificate(path: Path) -> bytes:
    """Return the first PEM certificate of a file, as DER.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no certificate.
    """
    with path.open("rb") as file:
        found = _PEM.search(file.read(MAX_FILE_BYTES).decode("ascii", "replace"))
    if found is None:
        raise ValueError(f"{path} has no PEM certificate")
    return ssl.PEM_cert_to_DER_cert(found[0])


def certificate_files(all_files: list[TlsFiles | None]) -> dict[str, Path]:
    """Return the files of certificates by their options. Authorities that sign others' certificates are left out.

    Args:
        all_files: files of each kind of connection; None for a kind without TLS.
    """
    return {f"{one.prefix}-certificate": one.certificate for one in all_files if one is not None and one.certificate}
