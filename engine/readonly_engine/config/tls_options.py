"""The PEM files of one kind of connection, from the options that have its prefix."""

from __future__ import annotations

from typing import Final

from readonly_engine.net.tls import TlsFiles

_TLS_SCHEMES: Final = ("pulsar+ssl:", "https:")


def tls_files(config: object, prefix: str, *urls: str) -> TlsFiles | None:
    """Return the files of TLS with a kind of servers; None without TLS.

    Args:
        config: settings with fields PREFIX_trust_certificates, PREFIX_certificate, PREFIX_key and PREFIX_hostname_verification.
            A field that they do not have has its default.
        prefix: prefix of the options, with dashes.
        urls: of the servers: their schemes enable TLS. Without URLs, any of the options does.
    """
    default = TlsFiles(prefix)
    name = prefix.replace("-", "_")
    given = TlsFiles(
        prefix,
        getattr(config, f"{name}_trust_certificates", default.trust),
        getattr(config, f"{name}_certificate", default.certificate),
        getattr(config, f"{name}_key", default.key),
        getattr(config, f"{name}_hostname_verification", default.hostname_verification),
    )
    enabled = any(url.startswith(_TLS_SCHEMES) for url in urls) if urls else given != default
    return given if enabled else None
