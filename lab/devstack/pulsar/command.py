"""`python -m devstack pulsar`: up, down, status, fetch."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readonly_engine.demo.class_archive import ClassArchives
from readonly_engine.demo.errors import DemoError
from readonly_engine.demo.recording import record_classes

from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.oxia.program import ensure_program
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.spec import DEFAULT_BASE_PORT, DEFAULT_VERSION, METADATA_STORES, PulsarSpec, Setting, default_state
from devstack.pulsar.state import StateFolder

if TYPE_CHECKING:
    from devstack.pulsar.status import StackStatus


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands; each sets `run`, a function of the parsed arguments."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    spec = PulsarSpec()

    up = commands.add_parser("up", help="start missing servers; a missing option keeps the stack's value")
    _add_stack(up)
    up.add_argument("--version", help=f"Pulsar release (default {DEFAULT_VERSION})")
    up.add_argument("--bookies", type=int, help=f"number of bookies (default {spec.bookies})")
    up.add_argument("--brokers", type=int, help=f"number of brokers (default {spec.brokers})")
    up.add_argument("--metadata", help=f"metadata store, {' or '.join(METADATA_STORES)} (default {spec.metadata})")
    up.add_argument(
        "--metadata-servers",
        type=int,
        help=f"number of the metadata store's servers, for oxia (default {spec.metadata_servers})",
    )
    up.add_argument(
        "--apart", action=argparse.BooleanOptionalAction, help="give the bookies a namespace of their own, with oxia"
    )
    up.add_argument("--base-port", type=int, help=f"first of the stack's ports (default {DEFAULT_BASE_PORT})")
    up.add_argument(
        "--explicit-lac-ms",
        type=int,
        help=f"the brokers' bookkeeperExplicitLacIntervalInMills, 0 for off (default {spec.explicit_lac_ms})",
    )
    up.add_argument("--transactions", action=argparse.BooleanOptionalAction, help="run the transaction coordinator")
    up.add_argument(
        "--quick",
        action=argparse.BooleanOptionalAction,
        help="compile with the JVM's C1 only (half the CPU of a start, slower under load), and without fsync; "
        "not for measurements",
    )
    up.add_argument(
        "--set",
        dest="settings",
        action="append",
        metavar="ROLE.KEY=VALUE",
        help="set a key of broker.conf or bookkeeper.conf, e.g. broker.managedLedgerMaxEntriesPerLedger=500; repeatable",
    )
    up.add_argument("--json", action="store_true", help="print the status as JSON")
    up.set_defaults(run=_up)

    down = commands.add_parser("down", help="stop all servers")
    _add_stack(down)
    down.add_argument("--purge", action="store_true", help="delete data, logs and configuration, too")
    down.set_defaults(run=_down)

    status = commands.add_parser("status", help="print the status of all servers; exit status 1 unless all answer")
    _add_stack(status)
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)

    fetch = commands.add_parser("fetch", help="fetch, verify and unpack a distribution; print its folder")
    fetch.add_argument("--version", default=DEFAULT_VERSION, help="Pulsar release (default %(default)s)")
    fetch.add_argument(
        "--all", action="store_true", help="fetch also the other releases that the tests run in short, and Oxia"
    )
    fetch.set_defaults(run=_fetch)


def _add_stack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="name of the stack (default: the one in --state, or `default`)")
    parser.add_argument("--state", type=Path, metavar="DIR", help="state folder (default: a folder in the cache)")


def _locate(args: argparse.Namespace) -> tuple[str, Path, PulsarSpec | None]:
    """Return the stack's name, its state folder, and its stored specification, None without one."""
    name = PulsarSpec(name=args.name or PulsarSpec().name).name  # raises for an invalid name
    state = args.state or default_state(name)
    stored = StateFolder(state.absolute()).stored()
    return args.name or (stored.name if stored else name), state, stored


def _up(args: argparse.Namespace) -> int:
    """Start the stack with its stored specification, changed by the given options."""
    name, state, stored = _locate(args)
    given: dict[str, Any] = {
        field.name: value
        for field in dataclasses.fields(PulsarSpec)
        if (value := getattr(args, field.name, None)) is not None
    }
    if "settings" in given:
        given["settings"] = tuple(Setting.parse(text) for text in given["settings"])
    given["name"] = name
    stack = PulsarCluster(dataclasses.replace(stored, **given) if stored else PulsarSpec(**given), state)
    stack.up()
    status = stack.status()
    say(f"Pulsar {status.version} is up: {status.endpoints.writer_url}, {status.endpoints.admin_url}")
    _show(status, as_json=args.json)
    return 0


def _down(args: argparse.Namespace) -> int:
    """Stop a stack. This does not need its stored specification, which may be damaged."""
    spec = PulsarSpec(name=args.name or PulsarSpec().name)
    state = args.state or default_state(spec.name)
    PulsarCluster(spec, state).down(purge=args.purge)
    say(f"the stack in {state} is down{' and forgotten' if args.purge else ''}")
    return 0


def _status(args: argparse.Namespace) -> int:
    name, state, stored = _locate(args)
    if stored is None:
        raise DevstackError(f"there is no stack in {state}", f"make it: python -m devstack pulsar up --name {name}")
    status = PulsarCluster(stored, state).status()
    _show(status, as_json=args.json)
    return 0 if status.healthy else 1


def _fetch(args: argparse.Namespace) -> int:
    home = ensure_distribution(args.version)
    print(home)
    if not ClassArchives.of(home).recorded:
        with step("recording the classes of its servers, with which quick stacks start in half the time"):
            try:
                asyncio.run(record_classes(home))
            except DemoError as error:  # it costs time only
                say(f"not recorded: {error}")
    if args.all:
        for version in assembled_versions():
            print(ensure_distribution(version))
        print(ensure_program())
    return 0


def _show(status: StackStatus, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(dataclasses.asdict(status), indent=1))
        return
    print(f"{'SERVER':<12}{'PID':>8}{'PORT':>7}  {'STATE':<14}{'MEMORY':>8}  LOG")
    for server in status.servers:
        state = "not running" if server.pid is None else "ok" if server.answers else "no answer"
        print(
            f"{server.name:<12}{server.pid or '-':>8}{server.port:>7}  {state:<14}{server.resident_mib:>5} MB  {server.log}"
        )
    print(f"metadata store {status.endpoints.metadata_store}")
    print(f"brokers        {' '.join(status.endpoints.brokers)}")
    print(f"admin          {' '.join(status.endpoints.admin_urls)}")
    print(f"bookies        {' '.join(status.endpoints.bookies)}")
