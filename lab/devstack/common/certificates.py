"""Keys and certificates by openssl (elliptic curve P-256)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from devstack.common.run import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DAYS: Final = "3650"


def openssl(*arguments: str) -> str:
    """Run openssl and return its output.

    Raises:
        DevstackError: openssl is missing or failed.
    """
    return run(["openssl", *arguments], what="making keys and certificates")


def make_key(path: Path) -> Path:
    """Make a private key in PKCS #8, the only format that Pulsar reads."""
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path))
    return path


def make_authority(certificate: Path, name: str) -> None:
    """Make a certificate authority; its key is beside the certificate with the suffix `.key`."""
    key = make_key(certificate.with_suffix(".key"))
    openssl(
        *("req", "-x509", "-new", "-key", str(key), "-subj", f"/CN={name}", "-days", DAYS),
        *("-addext", "basicConstraints=critical,CA:TRUE"),
        *("-addext", "keyUsage=critical,digitalSignature,keyCertSign,cRLSign", "-out", str(certificate)),
    )


def issue(
    authority: Path,
    certificate: Path,
    subject: str,
    *,
    usages: str,
    alternatives: Sequence[str] = (),
    days: str = DAYS,
) -> tuple[Path, Path]:
    """Make a key and a certificate for servers and clients.

    Args:
        authority: the certificate of the authority.
        certificate: the new certificate; its key gets the suffix `.key`.
        subject: the distinguished name, as `/CN=NAME`.
        usages: the key usages, separated by commas.
        alternatives: the subject's alternative names, as `DNS:HOST` or `IP:ADDRESS`.
        days: its validity; 0 for one that expires at once.

    Returns:
        The certificate and its key.
    """
    key = make_key(certificate.with_suffix(".key"))
    request, extensions = certificate.with_suffix(".csr"), certificate.with_suffix(".ext")
    lines = [f"keyUsage=critical,{usages}", "extendedKeyUsage=serverAuth,clientAuth"]
    if alternatives:
        lines.append("subjectAltName=" + ",".join(alternatives))
    extensions.write_text("\n".join(lines) + "\n")
    openssl("req", "-new", "-key", str(key), "-subj", subject, "-out", str(request))
    openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority), "-CAkey", str(authority.with_suffix(".key"))),
        *("-CAcreateserial", "-days", days, "-sha256", "-extfile", str(extensions), "-out", str(certificate)),
    )
    request.unlink()
    extensions.unlink()
    return certificate, key
