"""Command line of `pulsar-readonly top`: figures of read-only brokers, refreshed in a terminal."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Final

from readonly_engine.status.view import MAX_PAGE, View
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.run import run_command
from readonly_engine.top.client import StatusClient, check_url
from readonly_engine.top.observed import Observed, merged
from readonly_engine.top.screen import render
from readonly_engine.top.terminal import Terminal

NAME: Final = "pulsar-readonly top"
DEFAULT_URL: Final = "http://127.0.0.1:8080"
INTERVAL_S: Final = 2.0
MIN_INTERVAL_S: Final = 1.0
MAX_INTERVAL_S: Final = 3600.0
RATE_S: Final = 1.1
"""Time between the two requests of --once. A broker gives a rate one second after the first."""

_EXAMPLES: Final = """examples:
  pulsar-readonly top
  pulsar-readonly top http://broker-0:8080 http://broker-1:8080
  pulsar-readonly top http://broker-0:8080 --topic persistent://public/default/orders
  pulsar-readonly top http://broker-0:8080 --once --output json
  kubectl exec -it orders-0 -- pulsar-readonly top

Ctrl-C ends it. Exit status: 1 if a broker does not answer with --once, 2 for invalid options, 130 after an interrupt."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
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
    made.add_argument("--topic", metavar="TOPIC", default="", help="full name of a topic, to list its subscriptions")
    made.add_argument(
        "--subscription", metavar="NAME", default="", help="a subscription of --topic, to list its consumers"
    )
    made.add_argument(
        "--prefix", metavar="TEXT", default="", help="list only topics or subscriptions whose names begin with a text"
    )
    made.add_argument("--page", metavar="N", type=_page, default=1, help="page of the list, of 100 each (default 1)")
    made.add_argument(
        "--interval", metavar="SECONDS", type=_interval, default=INTERVAL_S,
        help=f"time between two requests, from {MIN_INTERVAL_S:g} to {MAX_INTERVAL_S:g} (default {INTERVAL_S:g})",
    )  # fmt: skip
    made.add_argument(
        "--once", action="store_true", help="print the figures once and end; it reads twice, for the rates"
    )
    made.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="form: text, or a JSON object on each line (default text)",
    )
    return made


def _url(text: str) -> str:
    try:
        return check_url(text)
    except ToolError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _page(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PAGE:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to {MAX_PAGE}")
    return int(text)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not MIN_INTERVAL_S <= seconds <= MAX_INTERVAL_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number of seconds from {MIN_INTERVAL_S:g} to {MAX_INTERVAL_S:g}"
        )
    return seconds


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 for success, 1 if a broker does not answer, 2 for invalid options, 130 after an interrupt.
    """
    made = parser()
    options = made.parse_args(argv)
    if options.subscription and not options.topic:
        made.error("argument --subscription: it needs --topic, the topic that has the subscription")
    return run_command(NAME, _show(options), (ToolError,))


async def _show(options: argparse.Namespace) -> None:
    view = View(options.topic, options.subscription, options.prefix, options.page)
    client = StatusClient(options.url or [DEFAULT_URL], view.query())
    try:
        if options.once:
            await _show_once(client, options.output)
        else:
            await _refresh(client, options)
    finally:
        await client.close()


async def _show_once(client: StatusClient, output: str) -> None:
    await client.read()
    await asyncio.sleep(RATE_S)
    observed = await client.read()
    terminal = Terminal(sys.stdout)
    lines = [_json(observed)] if output == "json" else render(observed, terminal.size[0])
    sys.stdout.write("\n".join([*lines, ""]))
    silent = [one for one in observed if one.status is None]
    if silent:
        raise ToolError(f"{len(silent)} of {len(observed)} brokers did not answer: {silent[0].url}: {silent[0].error}")


async def _refresh(client: StatusClient, options: argparse.Namespace) -> None:
    observed: list[Observed] = []
    began = time.monotonic()
    while options.output == "json":
        began = await _next(client, observed, began)
        sys.stdout.write(f"{_json(observed)}\n")
        sys.stdout.flush()
        await asyncio.sleep(options.interval)
    with Terminal(sys.stdout) as terminal:

        def draw() -> None:
            if observed:
                terminal.show(render(observed, *terminal.size))

        terminal.on_resize(draw)
        while True:
            began = await _next(client, observed, began)
            draw()
            await asyncio.sleep(options.interval)


async def _next(client: StatusClient, observed: list[Observed], began: float) -> float:
    """Replace what is known by the results of further requests; return the time of these."""
    newer = await client.read()
    now = time.monotonic()
    observed[:] = merged(observed, newer, now - began)
    return now


def _json(observed: list[Observed]) -> str:
    return json.dumps({"brokers": [one.document() for one in observed]})
