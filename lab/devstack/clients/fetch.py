"""`python -m devstack clients`: list, fetch, lock."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from devstack.clients.drivers import command, lock
from devstack.clients.versions import CLIENTS, select
from devstack.console import step

if TYPE_CHECKING:
    import argparse


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands; each sets `run`, a function of the parsed arguments."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, summary, run in (
        ("list", "their languages, versions and dates", _list),
        ("fetch", "fetch and build what is missing; print the command of each driver", _fetch),
        ("lock", "resolve what they are made of again, and pin it", _lock),
    ):
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(run=run)
        if name != "list":
            sub.add_argument("client", nargs="*", help="a language, or LANGUAGE-VERSION (default: all)")


def _list(_: argparse.Namespace) -> int:
    for client in CLIENTS:
        print(f"{client}\t{client.released}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    for client in select(args.client):
        print(f"{client}\t{shlex.join(command(client))}")
    return 0


def _lock(args: argparse.Namespace) -> int:
    for client in select(args.client):
        with step(f"locking {client}"):
            lock(client)
    return 0
