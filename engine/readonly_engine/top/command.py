"""Command line of `pulsar-readonly top`: figures of read-only brokers, refreshed in a terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from readonly_engine.config.option_parser import OptionParser
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.run import run_command
from readonly_engine.top.client import StatusClient, check_url
from readonly_engine.top.options import add_screen_options, add_view_options, view_of
from readonly_engine.top.showing import show

if TYPE_CHECKING:
    from readonly_engine.status.view import View

NAME: Final = "pulsar-readonly top"
DEFAULT_URL: Final = "http://127.0.0.1:8080"

_EXAMPLES: Final = """examples:
  pulsar-readonly top
  pulsar-readonly top http://broker-0:8080 http://broker-1:8080
  pulsar-readonly top http://broker-0:8080 --topic persistent://public/default/orders
  pulsar-readonly top http://broker-0:8080 --once --output json
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
    client = StatusClient(options.url or [DEFAULT_URL], view.query())
    try:
        await show(client, options)
    finally:
        await client.close()
