"""`python -m devstack writer`: the source Pulsar cluster inside the Kubernetes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from devstack.writer.cluster import MAX_BROKERS, WriterSpec, WriterStatus, down, status, up

if TYPE_CHECKING:
    import argparse


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add up, down and status."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    default = WriterSpec()
    starting = commands.add_parser("up", help="make it run, and wait until it takes messages")
    starting.add_argument(
        "--brokers", type=int, default=default.brokers, help=f"1 to {MAX_BROKERS} (default {default.brokers})"
    )
    starting.add_argument(
        "--explicit-lac-ms",
        type=int,
        default=default.explicit_lac_ms,
        help=f"bookkeeperExplicitLacIntervalInMills; 0 is off (default {default.explicit_lac_ms})",
    )
    starting.set_defaults(run=_up)
    ending = commands.add_parser("down", help="delete it, its data and its namespace")
    ending.set_defaults(run=_down)
    showing = commands.add_parser("status", help="say what runs; exit status 1 when not all of it is ready")
    showing.add_argument("--json", action="store_true", help="as JSON")
    showing.set_defaults(run=_status)
    for command in (starting, ending, showing):
        command.add_argument(
            "--namespace", default=default.namespace, help=f"Kubernetes namespace (default {default.namespace})"
        )


def _up(args: argparse.Namespace) -> int:
    spec = WriterSpec(namespace=args.namespace, brokers=args.brokers, explicit_lac_ms=args.explicit_lac_ms)
    print("\n".join(up(spec).lines()))
    return 0


def _down(args: argparse.Namespace) -> int:
    down(args.namespace)
    return 0


def _status(args: argparse.Namespace) -> int:
    found: WriterStatus = status(args.namespace)
    print(json.dumps(found.as_json(), indent=2) if args.json else "\n".join(found.lines()))
    return 0 if found.up else 1
