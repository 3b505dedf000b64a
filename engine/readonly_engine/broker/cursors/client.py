"""The stock client of the source cluster that stores local cursors, with the broker's own credentials."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pulsar
from pulsar.asyncio import Client

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.config.settings import EngineConfig


def _token_of(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def cursor_client(config: EngineConfig) -> Client:
    """Return a client; its role is that of --admin-token-file, else of the certificate.

    Args:
        config: settings of the broker.
    """
    options: dict[str, Any] = {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)}
    if config.admin_token_file is not None:
        path = config.admin_token_file
        options["authentication"] = pulsar.AuthenticationToken(lambda: _token_of(path))
    tls = config.writer_tls
    if tls is not None and config.writer_url.startswith("pulsar+ssl:"):
        if tls.trust is not None:
            options["tls_trust_certs_file_path"] = str(tls.trust)
        options["tls_validate_hostname"] = tls.verify_hostname
        if tls.certificate is not None and tls.key is not None and "authentication" not in options:
            options["authentication"] = pulsar.AuthenticationTLS(str(tls.certificate), str(tls.key))
    asyncio.get_running_loop()  # the client calls back on it
    return Client(config.writer_url, **options)
