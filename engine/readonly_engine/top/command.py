"""Command line of `pulsar-readonly top`: figures of read-only brokers, refreshed in a terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readonly_engine.config.option_parser import OptionParser
from readonly_engine.net.interfaces import LOOPBACK_HOSTS
from readonly_engine.net.tls import TlsError, TlsFiles
from readonly_engine.status.addresses import without_user
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.run import run_command
from readonly_engine.top.client import StatusClient, check_url
from readonly_engine.top.options import add_screen_options, add_view_options, view_of
from readonly_engine.top.showing import show

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from readonly_engine.status.view import View

NAME: Final = "pulsar-readonly top"
DEFAULT_URL: Final = "http://127.0.0.1:8080"

_EXAMPLES: Final = """examples:
  pulsar-readonly top
  pulsar-readonly top http://broker-0:8080 http://broker-1:8080
  pulsar-readonly top http://broker-0:8080 --topic persistent://public/default/orders
  pulsar-readonly top http://broker-0:8080 --once --output json
  pulsar-readonly top https://broker-0:8080 --trust-certificates ca.crt --token-file token
  kubectl exec -it orders-0 -- pulsar-readonly top

Ctrl-C ends it. Exit status: 1 if a broker does not answer with --once, 2 for invalid options, 130 after an interrupt."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = OptionParser(
        prog=NAME,
        description="Show the figures of read-only brokers, as on their status pages. The command only reads.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "url",
        metavar="URL",
        nargs="*",
        type=_url,
        help=f"HTTP port of a broker, or of several workers (default {DEFAULT_URL})",
    )
    made.add_argument(
        "--token-file",
        metavar="FILE",
        default="",
        help="token of the HTTP port, which is sent to https:// and to this machine only",
    )
    made.add_argument(
        "--trust-certificates",
        metavar="FILE",
        default="",
        help="PEM authorities of the brokers' certificates (default those of the system)",
    )
    add_view_options(made)
    add_screen_options(made)
    return made


def _url(text: str) -> str:
    try:
        return check_url(text)
    except ToolError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 for success, 1 if a broker does not answer, 2 for invalid options, 130 after an interrupt.
    """
    made = parser()
    options = made.parse_args(argv)
    return run_command(NAME, _show(options, view_of(made, options)), (ToolError,))


async def _show(options: argparse.Namespace, view: View) -> None:
    urls = options.url or [DEFAULT_URL]
    client = StatusClient(urls, view.query(), _token(options.token_file, urls), _context(options.trust_certificates))
    try:
        await show(client, options)
    finally:
        await client.close()


def _token(path: str, urls: Sequence[str]) -> str:
    """Return the token of a file; empty without one.

    Raises:
        ToolError: the file has no token, or others could read it on its way to a URL.
    """
    if not path:
        return ""
    for url in urls:
        if not url.startswith("https:") and urlsplit(url).hostname not in LOOPBACK_HOSTS:
            raise ToolError(
                f"--token-file: {without_user(url)} has no TLS, so that others could read the token; give https://"
            )
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"--token-file: {path} cannot be read: {error}") from error
    if not token or not token.isprintable():
        raise ToolError(f"--token-file: {path}: expected one token, as printable ASCII in one line")
    return token


def _context(trust: str) -> ssl.SSLContext | None:
    """Return a TLS context that trusts the authorities of a file; None without one.

    Raises:
        ToolError: the file cannot be used.
    """
    try:
        return TlsFiles("", Path(trust)).client_context() if trust else None
    except TlsError as error:
        raise ToolError(f"-{error}") from error
