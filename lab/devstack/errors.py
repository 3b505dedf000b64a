"""The error that the devstack shows to its user."""

from __future__ import annotations


class DevstackError(Exception):
    """An error that the user can resolve.

    Args:
        message: one sentence that names the option, file or feature.
        hint: the remedy, on a line of its own.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(hint)  # where a traceback shows the error, as in tests

    @property
    def text(self) -> str:
        """The message, and the remedy indented on a line of its own: what a program shows."""
        return f"{self}\n  {self.hint}" if self.hint else str(self)
