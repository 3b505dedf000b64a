"""`pulsar-readonly serve`: one read-only broker, or several worker processes on one machine."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from readonly_engine import allocator, collector, native
from readonly_engine.assembly import serve
from readonly_engine.config.arguments import parser
from readonly_engine.config.option import ConfigError, key_of
from readonly_engine.config.reader import make_config, read_config_file
from readonly_engine.listening import advertised_tls_url, advertised_url, listen
from readonly_engine.logs import set_up_logging
from readonly_engine.preflight import check
from readonly_engine.start_files import StartError, http_access
from readonly_engine.workers.parent import Parent
from readonly_engine.workers.plan import check_ports, worker_config

if TYPE_CHECKING:
    from readonly_engine.config.settings import EngineConfig

log = logging.getLogger(__name__)


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 after a signal, and after --check of a valid configuration; 1 when the broker cannot start, 2 for
        invalid options.
    """
    unknown: list[str] = []
    flags = vars(parser().parse_args(argv))
    only_check = flags.pop("check", False)
    try:
        config = _config(flags, unknown)
        if only_check:
            return _check(config, unknown)
        if config.workers > 1:
            check_ports(config)
    except ConfigError as error:
        print(f"pulsar-readonly serve: {error}", file=sys.stderr)
        return 2
    set_up_logging(config.log_level, config.log_format)
    for key in unknown:
        log.warning("unknown key in the file of --config is ignored; a newer version has it: key=%s", key)
    if missing := native.missing("readonly_engine."):
        log.warning(
            "C modules are missing, so that this broker needs more CPU: install a C compiler and the package again: modules=%s",
            ",".join(missing),
        )
    try:
        if config.workers > 1:
            return uvloop.run(_serve_by_workers(config, argv))
        allocator.tune_allocator()
        collector.tune_garbage_collector()
        uvloop.run(serve(config))
    except StartError as error:
        print(f"pulsar-readonly serve: {error}", file=sys.stderr)
        return 1
    return 0


def run_worker(index: int, argv: list[str]) -> int:
    """Run one of the worker processes that `main` starts for --workers.

    Returns:
        The exit status, see `main`.
    """
    config = _config(vars(parser().parse_args(argv)), [])
    set_up_logging(config.log_level, config.log_format, index)
    allocator.tune_allocator()
    collector.tune_garbage_collector()
    try:
        uvloop.run(serve(worker_config(config, index), config))
    except StartError as error:
        print(f"pulsar-readonly serve: worker {index}: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve_by_workers(config: EngineConfig, argv: list[str]) -> int:
    # Errors that all workers would have are raised once, here.
    advertised_url(config)
    advertised_tls_url(config)
    parent = Parent(config, argv, http_access(config))
    await listen("http", config.http, parent.listen, config.listen_timeout)
    return await parent.run()


def _check(config: EngineConfig, unknown: list[str]) -> int:
    """Check settings and files without a start; return the exit status."""
    for key in unknown:
        print(f"pulsar-readonly serve: unknown key {key!r} in the file of --config is ignored", file=sys.stderr)
    try:
        check(config)
    except StartError as error:
        print(f"pulsar-readonly serve: {error}", file=sys.stderr)
        return 1
    print("pulsar-readonly serve: the configuration is valid; no server was asked")
    return 0


def _config(flags: dict[str, Any], unknown: list[str]) -> EngineConfig:
    """Make the settings of flags and of the file; add ignored keys of the file to `unknown`."""
    path = flags.pop("config", None)
    settings = {key_of(name): value for name, value in flags.items()}
    return make_config(read_config_file(Path(path), unknown.append) if path else {}, settings)
