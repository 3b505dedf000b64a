"""Command line of `pulsar-readonly replay`. It changes the record of a replay in the metadata store, and asks no broker."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.broker.replay.record import window_name
from readonly_engine.config.option import ConfigError, Kind
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.reader import make_config, read_config_file
from readonly_engine.config.replay import SPEED, TIME, UNLIMITED, show_time, write_speed
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

    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.topic.replay.clock import ReplayClock

NAME: Final = "pulsar-readonly replay"

_EXAMPLES: Final = """examples:
  pulsar-readonly replay show --pool staging
  pulsar-readonly replay pause --pool staging
  pulsar-readonly replay resume --pool staging
  pulsar-readonly replay speed 10 --pool staging
  pulsar-readonly replay speed unlimited --pool staging
  pulsar-readonly replay seek 2026-11-21T14:30:00Z --pool staging
  pulsar-readonly replay delete --pool staging

All brokers of the pool follow within a moment. Exit status: 1 for a failure, 2 for invalid options."""


_COMMANDS: Final = {
    "show": "the replays of the pool, and where their clocks are",
    "pause": "stop the clock, so that no more messages are released",
    "resume": "let a paused clock go on where it stands",
    "speed": "change the speed of the clock, from now on",
    "seek": "let the clock go on from another publish time; all subscriptions begin there, too",
    "delete": "a replay with all its cursors, so that it can begin again; its brokers must have ended",
}
_VALUES: Final[dict[str, Kind[Any]]] = {"speed": SPEED, "seek": TIME}
"""Commands with a value."""

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
        "value",
        metavar="VALUE",
        nargs="?",
        help=f"of `speed`: {SPEED.expected}; of `seek`: {TIME.expected}, within the replay",
    )
    made.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="file of a broker of the pool: it names the metadata store, its TLS and its login, the pool and the replay",
    )
    made.add_argument(
        "--metadata-store-url", metavar="URL", default=os.environ.get(ENVIRONMENT),
        help=f"metadata store of the cluster, {FORMS} (default: the environment's {ENVIRONMENT})",
    )  # fmt: skip
    made.add_argument("--pool", metavar="NAME", help="name of the pool (default: that of --config, else default)")
    made.add_argument(
        "--pool-uid", metavar="UID", default="", help="uid of the pool, with --config: that of its brokers"
    )
    made.add_argument(
        "--replay", metavar="WINDOW", help="one of several replays of the pool, by its name in `replay show`"
    )
    add_security_options(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 for success, 1 for a failure, 2 for invalid options, 130 after an interrupt.
    """
    made = parser()
    options = made.parse_args(argv)
    kind = _VALUES.get(options.command)
    if kind is None and options.value is not None:
        made.error(f"{options.command} takes no value")
    if kind is not None:
        try:
            options.value = kind.parse(options.value)
        except ConfigError as error:
            made.error(f"{options.command}: {error}")
    return run_command(NAME, _run(options), (ToolError, MetadataError))


async def _run(options: argparse.Namespace) -> None:
    config = _config_of(options)
    if config is not None and config.replay is not None and options.replay is None:
        begin_ms, end_ms = config.replay.begin_ms, config.replay.end_ms
        options.replay = window_name(begin_ms, end_ms, options.pool_uid or config.pool_uid)
    options.pool = options.pool or ("default" if config is None else config.pool)
    async with _store_of(options, config) as store:
        if options.command == "show":
            for one in await replays_of(store, options.pool):
                if options.replay in {None, one.name}:
                    _show(one)
            return
        found = await find(store, options.pool, options.replay)
        if options.command == "delete":
            await delete(store, options.pool, found)
            print(f"deleted {found.name}")  # noqa: T201
        else:
            _show(await found.change(store, changes(options)))


def changes(options: argparse.Namespace) -> Callable[[ReplayClock], ReplayClock]:
    """Return the change of the clock; it raises ToolError where the clock cannot be changed so."""
    now_ms, value = time.time() * 1000, options.value

    def change(clock: ReplayClock) -> ReplayClock:
        match options.command:
            case "pause":
                return clock.pause(now_ms)
            case "resume":
                return clock.resume(now_ms)
            case "speed":
                if clock.loop and value == UNLIMITED:
                    raise ToolError("the speed of a replay with a loop must be a number: it would begin again at once")
                return clock.with_speed(value, now_ms)
        last_ms = now_ms if clock.end_ms is None else clock.end_ms
        if not clock.begin_ms <= value <= last_ms:
            last = "now" if clock.end_ms is None else show_time(last_ms)
            raise ToolError(f"seek: must be a time from {show_time(clock.begin_ms)} to {last}, not {show_time(value)}")
        return clock.seek(value, now_ms)

    return change


def _show(found: StoredReplay) -> None:
    """Print a replay in one line: its name, its place, its speed, its state, and what has become of its rounds."""
    clock, now_ms = found.record.clock, time.time() * 1000
    state = "ended" if clock.ended(now_ms) and not clock.loop else "paused" if clock.paused else "running"
    more = f"{' loop' if clock.loop else ''}{f' round {clock.round}' if clock.round else ''}"
    print(f"{found.name} at {show_time(clock.position(now_ms))} speed {write_speed(clock.speed)} {state}{more}")  # noqa: T201


def _config_of(options: argparse.Namespace) -> EngineConfig | None:
    if options.config is None:
        return None
    try:
        return make_config(read_config_file(options.config), {}, topics_required=False)
    except ConfigError as error:
        raise ToolError(f"--config: {error}") from error


@asynccontextmanager
async def _store_of(options: argparse.Namespace, config: EngineConfig | None) -> AsyncIterator[MetadataStore]:
    try:
        if config is not None:
            stores = ClusterStores(config.metadata_url, None, config.metadata_security)
        elif options.metadata_store_url:
            url = MetadataUrl.parse(options.metadata_store_url)
            stores = ClusterStores(url, None, security_of(options).stores)
        else:
            raise ToolError(f"--metadata-store-url is missing: give {FORMS}, or set {ENVIRONMENT}")
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
