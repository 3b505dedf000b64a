"""`pulsar-readonly wake`: it stands in for a pool without brokers, until a client needs them."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import sys
from typing import Any

from readonly_engine.background import ProcessGuard
from readonly_engine.config.option import ConfigError, argument_form, help_of, options_of, read_options
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.logs import set_up_logging
from readonly_engine.wake.server import StartError, WakeServer
from readonly_engine.wake.settings import WakeConfig

NAME = "pulsar-readonly wake"

log = logging.getLogger(__name__)

_DESCRIPTION = (
    "Stand in for a pool that sleeps. It accepts clients, and ends its --ready address when one needs a broker. It holds clients "
    "until SIGTERM. It checks no credentials, and connects to nothing. The operator runs it for pools with scaleToZero."
)


def parser() -> argparse.ArgumentParser:
    """Return the parser. Options not given are absent."""
    made = OptionParser(prog=NAME, description=_DESCRIPTION, argument_default=argparse.SUPPRESS)
    groups: dict[str, Any] = {}
    for one in options_of(WakeConfig):
        group = groups.get(one.group) or groups.setdefault(one.group, made.add_argument_group(one.group))
        form = argument_form(one.kind) | ({"nargs": "+"} if one.kind.several else {})
        group.add_argument(one.flag, **form, help=help_of(one), **({"required": True} if one.required else {}))
    return made


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 after a signal, 1 if the waker cannot start, 2 for invalid options.
    """
    flags = {name.replace("_", "-"): value for name, value in vars(parser().parse_args(argv)).items()}
    try:
        config = WakeConfig(**read_options(WakeConfig, flags, lambda one: one.flag))
    except ConfigError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    set_up_logging(config.log_level, config.log_format)
    gc.freeze()
    try:
        asyncio.run(wake(config))
    except StartError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    return 0


async def wake(config: WakeConfig) -> None:
    """Run one waker until SIGTERM or SIGINT.

    Raises:
        StartError: the waker cannot start, or stopped after an unexpected error.
    """
    stop = asyncio.Event()
    process = ProcessGuard("readonly_engine", stop.set)
    process.install()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = WakeServer()
    try:
        await server.start(config)
        clients = ", ".join(map(str, (*config.listen, *config.tls_listen)))
        log.info("waiting for a client on %s; ready on %s", clients, config.ready)
        await stop.wait()
    finally:
        await server.close()
    if process.error is not None:
        raise StartError(f"stopped after an unexpected error, which the log has: {process.error!r}")
