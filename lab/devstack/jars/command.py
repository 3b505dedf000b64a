"""`python -m devstack jars`: fetch a set of jars, or lock it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devstack.jars.fetch import ensure_jars, lock, names

if TYPE_CHECKING:
    import argparse


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add fetch and lock."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for word, run, summary in (
        ("fetch", _fetch, "fetch a set and print its folder"),
        ("lock", _lock, "resolve a set again and pin the checksums of its jars"),
    ):
        command = commands.add_parser(word, help=summary)
        command.add_argument("name", metavar="SET", choices=names(), help=", ".join(names()))
        command.set_defaults(run=run)


def _fetch(args: argparse.Namespace) -> int:
    print(ensure_jars(args.name))
    return 0


def _lock(args: argparse.Namespace) -> int:
    lock(args.name)
    return 0
