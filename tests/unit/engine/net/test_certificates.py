"""When certificates expire."""

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.net.certificates import certificate_files, expires_at, first_expiry
from readonly_engine.net.tls import TlsFiles


def certificate(path, *options):
    """Write a certificate that the options date, with its key, and return the certificate's PEM text."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(path.with_suffix(".key")))
    command = ["openssl", "req", "-x509", "-subj", "/CN=a", *key, "-out", str(path), *options]
    subprocess.run(command, check=True, capture_output=True)
    return path.read_text()


def shown(path):
    """What OpenSSL says of a certificate's end."""
    command = ["openssl", "x509", "-in", str(path), "-noout", "-enddate", "-dateopt", "iso_8601"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().removeprefix("notAfter=")
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize("days", ["1", "400", "20000"])  # the last one is after 2049: GeneralizedTime
def test_the_end_is_that_which_openssl_shows(tmp_path, days):
    path = tmp_path / "one.pem"
    certificate(path, "-days", days)
    assert first_expiry(path) == shown(path)


def test_the_first_of_a_chain_counts(tmp_path):
    one, other = tmp_path / "one.pem", tmp_path / "other.pem"
    chain = certificate(one, "-days", "20") + "text between\n" + certificate(other, "-days", "10")
    both = tmp_path / "chain.pem"
    both.write_text(chain)
    assert first_expiry(both) == shown(other)


def test_a_file_without_certificates_has_no_end(tmp_path):
    path = tmp_path / "none.pem"
    path.write_bytes(b"\xff-----BEGIN PRIVATE KEY-----")
    assert first_expiry(path) is None


@given(st.binary(max_size=200))
def test_what_is_no_certificate_is_an_error(text):
    with pytest.raises(ValueError, match=r".*"):
        expires_at(text)


def test_a_damaged_certificate_is_an_error_or_has_another_end(tmp_path):
    der = ssl.PEM_cert_to_DER_cert(certificate(tmp_path / "one.pem"))
    for length in range(len(der)):
        with pytest.raises(ValueError, match="no certificate"):
            expires_at(der[:length])


def test_own_certificates_are_named_by_their_options():
    found = certificate_files(
        [None, TlsFiles("tls", Path("ca"), Path("own"), Path("key")), TlsFiles("peer-tls", Path("ca"))]
    )
    assert found == {"tls-certificate": Path("own")}
