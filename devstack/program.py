"""How a program of this tree that starts others is run."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

ENDED: Final = 128 + signal.SIGTERM
"""The exit status of what SIGTERM has ended, as shells count it."""


def run_program(main: Callable[[], int]) -> NoReturn:
    """Run it, and let SIGTERM end it as an exception does: all that it has started is ended, too.

    Args:
        main: the program; returns its exit status.
    """

    def end(_signal: int, _frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: nothing may interrupt the clearing up
        sys.exit(ENDED)

    signal.signal(signal.SIGTERM, end)
    sys.exit(main())
