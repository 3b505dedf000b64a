"""`python -m devstack objectstore`: up, down, status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devstack.console import say
from devstack.objectstore.program import ensure_program
from devstack.objectstore.server import ACCESS_KEY, DEFAULT_PORT, SECRET_KEY, ObjectStore

if TYPE_CHECKING:
    import argparse


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands; each sets `run`, a function of the parsed arguments."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, summary, run in (
        ("build", "build the program; print its path", _build),
        ("up", "start it unless it runs", _up),
        ("down", "stop it", _down),
        ("status", "whether it is ready; exit status 1 unless it is", _status),
    ):
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--name", default="default", help="which store (default %(default)s)")
        command.add_argument(
            "--port", type=int, default=DEFAULT_PORT, help="its port on 127.0.0.1 (default %(default)s)"
        )
        command.set_defaults(run=run)
        if name == "up":
            command.add_argument("--bucket", action="append", default=[], help="a bucket to have; repeatable")
        if name == "down":
            command.add_argument("--purge", action="store_true", help="delete the objects too")


def _build(_: argparse.Namespace) -> int:
    print(ensure_program())
    return 0


def _up(args: argparse.Namespace) -> int:
    store = ObjectStore(args.name, args.port)
    store.up(*args.bucket)
    say(f"the object store is up: {store.endpoint}, access key {ACCESS_KEY}, secret key {SECRET_KEY}")
    return 0


def _down(args: argparse.Namespace) -> int:
    ObjectStore(args.name, args.port).down(purge=args.purge)
    say("the object store is down")
    return 0


def _status(args: argparse.Namespace) -> int:
    store = ObjectStore(args.name, args.port)
    ready = store.ready()
    print(f"{store.endpoint} {'ready' if ready else 'not running'}")
    return 0 if ready else 1
