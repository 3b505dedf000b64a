"""Run a program that starts other processes."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Callable

ENDED: Final = 128 + signal.SIGTERM
"""The exit status after SIGTERM, as in shells."""


def run_program(main: Callable[[], int]) -> NoReturn:
    """Run a program, and exit with its status; with 1 after a DevstackError, which goes to stderr with its remedy.

    SIGTERM raises SystemExit, so that the program stops all processes that it started.

    Args:
        main: the program; returns its exit status.
    """

    def end(_signal: int, _frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
        sys.exit(ENDED)

    signal.signal(signal.SIGTERM, end)
    try:
        sys.exit(main())
    except DevstackError as error:
        print(f"error: {error.text}", file=sys.stderr)
        sys.exit(1)
