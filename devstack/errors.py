"""The one error that the devstack shows to a person."""

from __future__ import annotations


class DevstackError(Exception):
    """Something that the user can act on: what is wrong, and what would be right.

    Args:
        message: one sentence that names the option, file or feature at fault.
        hint: what to do about it; shown on a line of its own.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
