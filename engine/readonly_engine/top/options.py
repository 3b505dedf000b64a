"""Options of `top` that choose a list, its interval and its form. Other commands with the same screen have them too."""

from __future__ import annotations

import argparse
from typing import Final

from readonly_engine.status.view import MAX_PAGE, View

INTERVAL_S: Final = 2.0
MIN_INTERVAL_S: Final = 1.0
MAX_INTERVAL_S: Final = 3600.0


def add_view_options(made: argparse.ArgumentParser) -> None:
    """Add the options that choose a list: --topic, --subscription, --prefix and --page."""
    made.add_argument("--topic", metavar="TOPIC", default="", help="full name of a topic, to list its subscriptions")
    made.add_argument(
        "--subscription", metavar="NAME", default="", help="a subscription of --topic, to list its consumers"
    )
    made.add_argument(
        "--prefix", metavar="TEXT", default="", help="list only topics or subscriptions whose names begin with a text"
    )
    made.add_argument("--page", metavar="N", type=_page, default=1, help="page of the list, of 100 each (default 1)")


def add_screen_options(made: argparse.ArgumentParser) -> None:
    """Add the options of the screen: --interval, --once and --output."""
    made.add_argument(
        "--interval", metavar="SECONDS", type=_interval, default=INTERVAL_S,
        help=f"time between two requests, from {MIN_INTERVAL_S:g} to {MAX_INTERVAL_S:g} (default {INTERVAL_S:g})",
    )  # fmt: skip
    made.add_argument(
        "--once", action="store_true", help="print the figures once and end; it reads twice, for the rates"
    )
    made.add_argument(
        "-o",
        "--output",
        type=str.lower,
        choices=("text", "json"),
        default="text",
        help="form: text, or a JSON object on each line (default text)",
    )


def view_of(made: argparse.ArgumentParser, options: argparse.Namespace) -> View:
    """Return the list that the options choose. Without a topic, a subscription ends the process with status 2."""
    if options.subscription and not options.topic:
        made.error("argument --subscription: it needs --topic, the topic that has the subscription")
    return View(options.topic, options.subscription, options.prefix, options.page)


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
