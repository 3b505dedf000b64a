"""Command line of `pulsar-readonly subscriptions ls|show|seek|delete|import|export`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pulsar.asyncio import PulsarException

from readonly_engine.config.option import ConfigError, argument_form, help_of, key_of, options_of
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.reader import read_config_file
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import RelayError
from readonly_engine.subscriptions.changes import Changes
from readonly_engine.subscriptions.cursors import pool_cursors
from readonly_engine.subscriptions.forced import forced_changes
from readonly_engine.subscriptions.output import list_as_json, list_as_text, one_as_json, one_as_text
from readonly_engine.subscriptions.pool_client import client_log, pool_client
from readonly_engine.subscriptions.settings import ToolConfig, make_tool_config
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.run import exit_now, print_error, run_command
from readonly_engine.tool.start import parse_start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.subscriptions.cursors import PoolCursors

NAME = "pulsar-readonly subscriptions"

_EXAMPLES = """examples:
  pulsar-readonly subscriptions ls orders --config serve.yaml
  pulsar-readonly subscriptions show orders billing --config serve.yaml -o json
  pulsar-readonly subscriptions seek orders billing --to 10m --config serve.yaml --pool-service-url pulsar://pool:6650
  pulsar-readonly subscriptions import orders billing --config serve.yaml --pool-service-url pulsar://pool:6650

TOPIC may be as short as clients allow: orders is persistent://public/default/orders.
A partitioned topic means all its partitions."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options. Common options that are not given are absent."""
    common = OptionParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("connections")
    group.add_argument(
        "--config", metavar="FILE", help="YAML file of `serve`: --service-url, --pool and others are taken from it"
    )
    for one in options_of(ToolConfig):
        form = argument_form(one.kind)
        group.add_argument(one.flag, **form, help=help_of(one))
    made = OptionParser(
        prog=NAME,
        description="List, show, move and delete the subscriptions whose cursors a pool keeps itself (serve --cursors local).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, summary: str, *, subscription: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, parents=[common], help=summary, description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        added.add_argument("topic", metavar="TOPIC", help="a topic, a partition, or a partitioned topic")
        if subscription:
            added.add_argument("subscription", metavar="SUBSCRIPTION", help="name of the subscription")
        return added

    for shown in (
        add("ls", "list the local subscriptions of a topic", subscription=False),
        add("show", "show the cursor and the properties of a local subscription"),
    ):
        shown.add_argument(
            "-o",
            "--output",
            type=str.lower,
            choices=("text", "json"),
            default="text",
            help="form of the output (default text)",
        )
    seek = add("seek", "move the cursor of a local subscription without consumers")
    seek.add_argument("--force", action="store_true", help="also move a subscription that has consumers")
    seek.add_argument(
        "--to", metavar="WHERE", required=True,
        help="next message to deliver: earliest, latest, LEDGER:ENTRY, a time (2026-11-21T12:00:00 local, with Z UTC; or ms "
        "since the epoch), or ago: 90s, 10m, 2h, 1d",
    )  # fmt: skip
    delete = add("delete", "delete a local subscription without consumers")
    delete.add_argument("--force", action="store_true", help="also delete a subscription that has consumers")
    add("import", "move a subscription without consumers from the owner to the pool")
    add("export", "move a local subscription without consumers from the pool to the owner")
    return made


async def _show(options: argparse.Namespace, config: ToolConfig) -> None:
    topic = parse_topic_name(options.topic)
    with client_log() as log:
        async with pool_cursors(config, logger=log.logger) as cursors:
            await _print(options, cursors, topic)


async def _print(options: argparse.Namespace, cursors: PoolCursors, topic: TopicName) -> None:
    topics = await cursors.parts_of(topic)
    if options.command == "ls":
        listed = await cursors.list(topics)
        entries = await cursors.entries(listed)
        sys.stdout.writelines((list_as_json if options.output == "json" else list_as_text)(listed, entries))
        return
    found = {topic: one for topic in topics if (one := await cursors.find(topic, options.subscription)) is not None}
    if not found and not await cursors.stored_in(topic):
        raise cursors.none_stored(topic)
    if not found:
        raise ToolError(
            f"the pool keeps no subscription {options.subscription} of {topic}; `{NAME} ls` lists those that it keeps"
        )
    entries = await cursors.entries(found)
    sys.stdout.writelines(one_as_json(found, entries) if options.output == "json" else one_as_text(found, entries))


@asynccontextmanager
async def _changes(options: argparse.Namespace, config: ToolConfig) -> AsyncIterator[Changes]:
    topic = parse_topic_name(options.topic)
    with client_log() as log:
        async with (
            pool_cursors(config, logger=log.logger) as cursors,
            pool_client(config, log) as pool,
            forced_changes(config) as forced,
        ):
            topics = await cursors.parts_of(topic)
            await pool.check_reachable(topic)
            yield Changes(cursors, pool, forced, topics, options.subscription)


async def _change(options: argparse.Namespace, config: ToolConfig) -> None:
    to = parse_start(options.to, int(time.time() * 1000), "--to") if options.command == "seek" else None
    async with _changes(options, config) as changes:
        if to is not None:
            lines = changes.seek(to, force=options.force)
        elif options.command == "delete":
            lines = changes.delete(force=options.force)
        else:
            lines = changes.import_subscription() if options.command == "import" else changes.give_back()
        async for line in lines:
            print(line, flush=True)  # noqa: T201


def main(argv: list[str]) -> int:
    """Run the command; end the process with the exit status 0 for success, 1 for a failure, 130 after an interrupt.

    Returns:
        The exit status 2 for invalid options.
    """
    options = parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format=f"{NAME}: %(message)s")
    given = vars(options)
    keys = {one.key for one in options_of(ToolConfig)}
    flags = {key_of(name): value for name, value in given.items() if key_of(name) in keys}
    try:
        file = given.get("config")
        config = make_tool_config(read_config_file(Path(file)) if file else {}, flags)
    except ConfigError as error:
        print_error(NAME, str(error))
        return 2
    work = _show if options.command in {"ls", "show"} else _change
    return exit_now(run_command(NAME, work(options, config), (ToolError, TopicNameError, RelayError, PulsarException)))
