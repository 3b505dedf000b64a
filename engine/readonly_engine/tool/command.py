"""Command line of `pulsar-readonly topic ls|show|read`: inspect topics in storage. It writes nothing and asks no broker."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import time
from typing import Any

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.url import FORMS
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.listing import list_namespaces, list_topics
from readonly_engine.tool.output import FORMATS
from readonly_engine.tool.progress import Progress
from readonly_engine.tool.reading import Outcome, ReadOptions, read_topic
from readonly_engine.tool.run import print_error, run_command
from readonly_engine.tool.security import add_security_options, security_of
from readonly_engine.tool.show import describe, render
from readonly_engine.tool.start import parse_start
from readonly_engine.tool.storage import BOOKKEEPER_ENVIRONMENT, ENVIRONMENT, storage_at
from readonly_engine.wire.errors import WireError

NAME = "pulsar-readonly topic"

_EXAMPLES = """examples:
  pulsar-readonly topic ls
  pulsar-readonly topic ls public/default
  pulsar-readonly topic show persistent://public/default/orders
  pulsar-readonly topic show orders -o json
  pulsar-readonly topic read orders --from 10m --follow
  pulsar-readonly topic read orders --from 2026-11-21T12:00:00Z --count 100 -o json
  pulsar-readonly topic read orders-partition-3 --from 1234:0
  pulsar-readonly topic read orders --from 1234:17 --count 1 -o raw > message.bin

TOPIC may be as short as clients allow: orders is persistent://public/default/orders."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    common = OptionParser(add_help=False)
    common.add_argument(
        "--metadata-store-url", metavar="URL", default=os.environ.get(ENVIRONMENT),
        help=f"metadata store of the cluster, {FORMS} (default: the environment's {ENVIRONMENT})",
    )  # fmt: skip
    common.add_argument(
        "--bookkeeper-metadata-store-url", metavar="URL", default=os.environ.get(BOOKKEEPER_ENVIRONMENT) or None,
        help="metadata store of the bookies, if it is another than that of the brokers "
        f"(default: the environment's {BOOKKEEPER_ENVIRONMENT}, else the same)",
    )  # fmt: skip
    add_security_options(common)
    made = OptionParser(
        prog=NAME,
        description="Inspect topics in the metadata store and bookies. The command writes nothing, and asks no broker.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, parents=[common], help=summary, description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip

    ls = add("ls", "list namespaces, or the topics of one")
    ls.add_argument(
        "namespace", metavar="NAMESPACE", nargs="?", help="TENANT/NAMESPACE; without it, namespaces are listed"
    )
    show = add("show", "show a topic's ledgers, their readable end, and the cursors of its subscriptions")
    show.add_argument(
        "topic", metavar="TOPIC", help="a topic, a partition, or a partitioned topic with all its partitions"
    )
    show.add_argument(
        "-o",
        "--output",
        type=str.lower,
        choices=("text", "json"),
        default="text",
        help="form of the output (default text)",
    )
    read = add("read", "print the messages of a topic")
    read.add_argument("topic", metavar="TOPIC", help="a topic, a partition, or a partitioned topic: all its partitions")
    read.add_argument(
        "--from", dest="start", metavar="WHERE", default="earliest",
        help="start: earliest (default), latest, LEDGER:ENTRY, a time (2026-11-21T12:00:00 local, with Z UTC), "
        "or ago: 90s, 10m, 2h, 1d",
    )  # fmt: skip
    read.add_argument("--follow", action="store_true", help="wait for more at the end, until Ctrl-C")
    read.add_argument("--count", type=_positive, metavar="N", help="stop after N messages")
    read.add_argument("--parts", action="store_true", help="show each chunk of large messages, instead of joining them")
    read.add_argument(
        "-o", "--output", type=str.lower, choices=tuple(FORMATS), default="text",
        help="form: a line for each message (text, the default), an object on each line (json), or the values' bytes alone (raw)",
    )  # fmt: skip
    return made


def _positive(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number above 0")
    return int(text)


async def _ls(options: argparse.Namespace) -> None:
    async with storage_at(
        options.metadata_store_url, options.bookkeeper_metadata_store_url, security_of(options)
    ) as storage:
        namespace = options.namespace
        if namespace is not None and namespace.count("/") != 1:
            raise ToolError(f"the namespace must be TENANT/NAMESPACE, not {namespace!r}")
        for line in await (list_topics(storage, namespace) if namespace else list_namespaces(storage)):
            print(line)  # noqa: T201


async def _show(options: argparse.Namespace) -> None:
    async with storage_at(
        options.metadata_store_url, options.bookkeeper_metadata_store_url, security_of(options)
    ) as storage:
        described = [await describe(storage, topic) for topic in await storage.parts_of(options.topic)]
    if options.output == "json":
        print(json.dumps(described if len(described) > 1 else described[0], indent=1))  # noqa: T201
    else:
        print("\n".join(line for topic in described for line in render(topic)))  # noqa: T201


async def _read(options: argparse.Namespace) -> None:
    start = parse_start(options.start, int(time.time() * 1000))
    if start == "latest" and not options.follow:
        raise ToolError("--from latest: there is nothing after the last message; add --follow to wait for more")
    wanted = ReadOptions(start, follow=options.follow, count=options.count, join=not options.parts)
    encode, outcome, out = FORMATS[options.output], Outcome(), sys.stdout.buffer
    shown = sys.stderr.isatty() and not sys.stdout.isatty() and not options.follow
    progress: Progress | None = None

    def count(entry: Any) -> None:
        nonlocal progress
        if progress is None:
            progress = Progress(sys.stderr, outcome.total, shown=shown)
        progress.add(entry.size)

    try:
        async with storage_at(
            options.metadata_store_url, options.bookkeeper_metadata_store_url, security_of(options)
        ) as storage:
            items = read_topic(storage, await storage.parts_of(options.topic), wanted, outcome, count)
            try:
                async for item in items:
                    out.write(encode(item))
                    if options.follow:
                        out.flush()
            finally:
                await items.aclose()
        out.flush()
    finally:
        if progress is not None:
            progress.end()
    if outcome.incomplete:
        print_error(NAME, f"incomplete chunked messages: {outcome.incomplete}; --parts shows their chunks")
    if outcome.lost:
        print_error(NAME, f"entries trimmed before they were read: {outcome.lost}")


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 for success, 1 for a failure, 2 for invalid options, 130 after an interrupt.
    """
    options = parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format=f"{NAME}: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    work = {"ls": _ls, "show": _show, "read": _read}[options.command]
    return run_command(NAME, work(options), (ToolError, MetadataError, BookKeeperError, WireError))
