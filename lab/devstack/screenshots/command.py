"""`python -m devstack screenshots`: pictures of the status pages and of the terminal, for docs/."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from devstack.errors import DevstackError
from devstack.screenshots.run import BASE_PORT, FOLDER, take

if TYPE_CHECKING:
    import argparse


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--out",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help="where the pictures go (default docs/pictures/screens)",
    )
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        metavar="COMMAND=FILE",
        help="draw the captured output of a command too, as 'kubectl readonly status=status.txt'; may be repeated",
    )
    parser.add_argument(
        "--base-port", type=int, default=BASE_PORT, metavar="PORT", help="of its Pulsar (default %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="leave its Pulsar running")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    take(args.out, args.base_port, texts(args.text), keep=args.keep)
    return 0


def texts(options: list[str]) -> dict[str, Path]:
    """Return the files of `--text` by command line.

    Raises:
        DevstackError: an option has another form.
    """
    found = {}
    for option in options:
        command, sign, name = option.rpartition("=")
        if not (sign and command.strip() and name):
            raise DevstackError(f"--text {option}: expected COMMAND=FILE, as 'kubectl readonly status=status.txt'")
        found[command.strip()] = Path(name)
    return found
