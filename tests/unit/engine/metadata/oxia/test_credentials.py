from pathlib import Path

import pytest
from readonly_engine.metadata.oxia.credentials import channel_credentials
from readonly_engine.metadata.security import OPEN_STORE, StoreSecurity
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.tls import TlsError, TlsFiles


def test_without_tls_there_are_no_credentials():
    assert channel_credentials(OPEN_STORE) is None


def test_without_an_authority_that_of_the_system_counts():
    assert channel_credentials(StoreSecurity(TlsFiles("metadata-store-tls"))) is not None


@pytest.mark.parametrize(
    ("security", "error", "why"),
    [
        (StoreSecurity(login_file=Path("/login")), LoginError, "metadata-store-login-file: a login is of ZooKeeper"),
        (
            StoreSecurity(TlsFiles("metadata-store-tls", hostname_verification=False)),
            TlsError,
            "metadata-store-tls-hostname-verification: host names",
        ),
        (StoreSecurity(TlsFiles("metadata-store-tls", Path("/none"))), TlsError, "metadata-store-tls-trust-certifica"),
    ],
)
def test_what_oxia_cannot_have_is_one_error(security, error, why):
    with pytest.raises(error, match=why):
        channel_credentials(security)
