"""Command line of `pulsar-readonly replay`. It changes the record of a replay in the metadata store, and asks no broker."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from readonly_engine.config.option import ConfigError
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.replay import SPEED, show_time, write_speed
from readonly_engine.metadata.connect import ClusterStores
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.url import FORMS, MetadataUrl
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.tls import TlsError
from readonly_engine.replays.stored import StoredReplay, delete, find, replays_of
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.run import run_command
from readonly_engine.tool.security import add_security_options, security_of
from readonly_engine.tool.storage import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.topic.replay.clock import ReplayClock

NAME: Final = "pulsar-readonly replay"

_EXAMPLES: Final = """examples:
  pulsar-readonly replay show --pool staging
  pulsar-readonly replay pause --pool staging
  pulsar-readonly replay resume --pool staging
  pulsar-readonly replay speed 10 --pool staging
  pulsar-readonly replay speed unlimited --pool staging
  pulsar-readonly replay delete --pool staging

All brokers of the pool follow within a moment. Exit status: 1 for a failure, 2 for invalid options."""


_COMMANDS: Final = {
    "show": "the replays of the pool, and where their clocks are",
    "pause": "stop the clock, so that no more messages are released",
    "resume": "let a paused clock go on where it stands",
    "speed": "change the speed of the clock, from now on",
    "delete": "a replay with all its cursors, so that it can begin again; its brokers must have ended",
}
_SUMMARY: Final = "; ".join(f"{name}: {text.partition(';')[0]}" for name, text in _COMMANDS.items())


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = OptionParser(
        prog=NAME,
        description="Show and change the replays of a pool (serve --replay-from).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("command", metavar="COMMAND", choices=tuple(_COMMANDS), help=_SUMMARY)
    made.add_argument(
        "speed", metavar=SPEED.form, nargs="?", type=_speed, help=f"of `speed`: the speed, {SPEED.expected}"
    )
    made.add_argument(
        "--metadata-store-url", metavar="URL", default=os.environ.get(ENVIRONMENT),
        help=f"metadata store of the cluster, {FORMS} (default: the environment's {ENVIRONMENT})",
    )  # fmt: skip
    made.add_argument("--pool", metavar="NAME", default="default", help="name of the pool (default default)")
    made.add_argument(
        "--replay", metavar="WINDOW", help="one of several replays of the pool, by its name in `replay show`"
    )
    add_security_options(made)
    return made


def _speed(text: str) -> float:
    try:
        return SPEED.parse(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 for success, 1 for a failure, 2 for invalid options, 130 after an interrupt.
    """
    made = parser()
    options = made.parse_args(argv)
    if (options.command == "speed") != (options.speed is not None):
        made.error(
            f"give the speed, {SPEED.expected}" if options.speed is None else f"{options.command} takes no speed"
        )
    return run_command(NAME, _run(options), (ToolError, MetadataError))


async def _run(options: argparse.Namespace) -> None:
    async with _store_of(options) as store:
        if options.command == "show":
            for one in await replays_of(store, options.pool):
                _show(one)
            return
        found = await find(store, options.pool, options.replay)
        if options.command == "delete":
            await delete(store, options.pool, found)
            print(f"deleted {found.name}")  # noqa: T201
        else:
            _show(await found.change(store, _changes(options)))


def _changes(options: argparse.Namespace) -> Callable[[ReplayClock], ReplayClock]:
    now_ms = time.time() * 1000
    if options.command == "speed":
        return lambda clock: clock.with_speed(options.speed, now_ms)
    return partial(_paused, now_ms=now_ms, paused=options.command == "pause")


def _paused(clock: ReplayClock, now_ms: float, *, paused: bool) -> ReplayClock:
    return clock.pause(now_ms) if paused else clock.resume(now_ms)


def _show(found: StoredReplay) -> None:
    """Print a replay in one line: its name, its place, its speed, and its state."""
    clock, now_ms = found.record.clock, time.time() * 1000
    state = "ended" if clock.ended(now_ms) else "paused" if clock.paused else "running"
    print(f"{found.name} at {show_time(clock.position(now_ms))} speed {write_speed(clock.speed)} {state}")  # noqa: T201


@asynccontextmanager
async def _store_of(options: argparse.Namespace) -> AsyncIterator[MetadataStore]:
    if not options.metadata_store_url:
        raise ToolError(f"--metadata-store-url is missing: give {FORMS}, or set {ENVIRONMENT}")
    try:
        url = MetadataUrl.parse(options.metadata_store_url)
        stores = ClusterStores(url, None, security_of(options).stores)
    except MetadataError as error:
        raise ToolError(f"--metadata-store-url: {error}") from error
    except (TlsError, LoginError) as error:
        raise ToolError(f"--{error}") from error
    try:
        await stores.start()
    except MetadataError as error:
        raise ToolError(f"--metadata-store-url: {error}") from error
    try:
        yield stores.main
    finally:
        await stores.close()
