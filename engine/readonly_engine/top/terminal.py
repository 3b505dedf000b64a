"""Output of `top`: a terminal's second screen, or plain frames where the output is no terminal."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PLAIN_WIDTH: Final = 160
"""Columns of a frame where the output is no terminal."""

UNKNOWN_SIZE: Final = (80, 24)
"""Columns and lines of a terminal that does not know its size, as in some containers."""

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"


def is_screen(out: TextIO, environment: str | None) -> bool:
    """Return whether frames can replace each other.

    Args:
        out: the output.
        environment: the variable TERM.
    """
    return out.isatty() and environment not in {None, "", "dumb"}


def frame(lines: Sequence[str], *, screen: bool) -> str:
    """Return the characters of a frame.

    Args:
        lines: its lines, cut to the width of the terminal.
        screen: whether it replaces the frame before; otherwise an empty line ends it.
    """
    if not screen:
        return "\n".join([*lines, "", ""])
    return _HOME + "\r\n".join(line + _END_OF_LINE for line in lines) + _ERASE_BELOW


class Terminal:
    """Shows frames. As a context it uses the terminal's second screen, and gives back the first one at its end.

    Args:
        out: the output.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.screen = is_screen(out, os.environ.get("TERM"))

    def __enter__(self) -> Self:
        if self.screen:
            self._out.write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        if self.screen:
            with suppress(BrokenPipeError):  # the terminal has gone
                self._out.write(_LEAVE)
                self._out.flush()

    @property
    def size(self) -> tuple[int, int | None]:
        """Columns and lines of a frame; None lines for any number."""
        if not self.screen:
            return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, None
        size = os.get_terminal_size(self._out.fileno())
        return size.columns or UNKNOWN_SIZE[0], size.lines or UNKNOWN_SIZE[1]

    def show(self, lines: Sequence[str]) -> None:
        """Show a frame."""
        self._out.write(frame(lines, screen=self.screen))
        self._out.flush()

    def on_resize(self, call: Callable[[], None]) -> None:
        """Call back at each change of the terminal's size."""
        if self.screen:
            asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, call)
