"""TLS towards Oxia, as gRPC wants it: PEM texts instead of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.tls import TlsError

if TYPE_CHECKING:
    from readonly_engine.metadata.security import StoreSecurity


def channel_credentials(security: StoreSecurity) -> grpc.ChannelCredentials | None:
    """Return the credentials of channels; None without TLS.

    Raises:
        TlsError: a file cannot be used, or host names are not to be checked.
        LoginError: a login is of ZooKeeper only.
    """
    if security.login_file is not None:
        raise LoginError(f"{security.option('login-file')}: a login is of ZooKeeper; leave it out for Oxia")
    if security.tls is None:
        return None
    tls = security.tls
    if not tls.hostname_verification:
        raise TlsError(
            f"{security.option('tls-hostname-verification')}: host names are always checked for Oxia; leave it out"
        )
    tls.client_context()  # checks the files, with an error that names the option
    key = tls.key or tls.certificate
    return grpc.ssl_channel_credentials(
        root_certificates=None if tls.trust is None else tls.trust.read_bytes(),
        private_key=None if key is None else key.read_bytes(),
        certificate_chain=None if tls.certificate is None else tls.certificate.read_bytes(),
    )
