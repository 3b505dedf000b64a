"""Stock clients of Pulsar: that of the source cluster, which stores local cursors, and those of the command line."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import pulsar
from pulsar.asyncio import Client, PulsarException

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from readonly_engine.net.tls import TlsFiles


log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S: Final = 5.0
"""Time to close; a silent server would take the time of a whole request (30 s by default), after the drain's."""


class StockClient(Client):  # type: ignore[misc] # the package has no types
    """The stock client on an event loop that may end before the server has answered."""

    async def close(self) -> None:
        """Close the client; afterwards none of its threads calls back.

        A callback on an event loop that is closed is an exception in the C++ client, which ends the process by SIGABRT
        (pulsar-client 3.13.0, tried). So what is still under way fails here, while the loop runs. The client's own close fails if
        that of one producer does; the broker stops all the same.
        """
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await super().close()
        except (TimeoutError, PulsarException) as error:
            log.info(
                "the client did not close, ending its requests: error=%s",
                error or f"no answer in {CLOSE_TIMEOUT_S:g} s",
            )
        finally:
            await asyncio.to_thread(self.shutdown)


def file_token(path: Path | None) -> Callable[[], str] | None:
    """Return a function that reads a token from a file; None without a file."""
    return None if path is None else lambda: path.read_text(encoding="ascii").strip()


def stock_client(url: str, tls: TlsFiles | None, token: Callable[[], str] | None, **options: Any) -> StockClient:
    """Return a client; its role is that of the token, else of the certificate.

    Args:
        url: service URL.
        tls: files of TLS; they count for a URL of pulsar+ssl:// only.
        token: returns the token for a connection, on a thread of the client; None for none.
        options: more arguments of the client.
    """
    options = {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **options}
    if token is not None:
        options["authentication"] = pulsar.AuthenticationToken(token)
    if tls is not None and url.startswith("pulsar+ssl:"):
        if tls.trust is not None:
            options["tls_trust_certs_file_path"] = str(tls.trust)
        options["tls_validate_hostname"] = tls.hostname_verification
        if tls.certificate is not None and tls.key is not None and "authentication" not in options:
            options["authentication"] = pulsar.AuthenticationTLS(str(tls.certificate), str(tls.key))
    asyncio.get_running_loop()  # the client calls back on it
    return StockClient(url, **options)
