"""Regular expressions that users write: matched in time that grows with the text only, whatever was written.

They are RE2's, as those that the API server checks: an engine that goes back and tries again, as Python's own, would let one
expression such as `(a+)+b` stop a broker for everybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import re2

SYNTAX = "RE2 syntax, which has no lookaround and no backreferences"
"""What is allowed, in the words of every error about it."""
LONGEST = 512
"""Most characters of an expression, as in a ReadOnlyTopicBinding."""
LARGEST = 10_000
"""Most instructions of RE2 that it may come to: `x{1000}` has about 1,000, `.{1000}` 8,000."""
MEMORY_BYTES = 1 << 20
"""Most memory that RE2 uses for one, its caches included; with less at hand it is slower, and says the same."""


class ExpressionError(ValueError):
    """What was written is no expression that can be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that a whole text must match.

    Attributes:
        text: as the user wrote it.
    """

    text: str
    _compiled: Any

    @classmethod
    def parse(cls, text: str) -> Expression:
        """The expression of a text.

        Raises:
            ExpressionError: it is none, or is too large.
        """
        if len(text) > LONGEST:
            raise ExpressionError(f"it has {len(text)} characters; at most {LONGEST} are allowed")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True  # nobody asks for groups, and without them one pass is enough
        options.max_mem = MEMORY_BYTES
        try:
            compiled = re2.compile(text, options)
        except UnicodeEncodeError:
            raise ExpressionError("it is no text in Unicode") from None
        except re2.error as error:
            reason = error.args[0].decode(errors="replace")  # of bytes, unlike other errors
            raise ExpressionError(f"{reason}; it must be in {SYNTAX}") from None
        if compiled.programsize > LARGEST:
            raise ExpressionError(f"it comes to {compiled.programsize} steps; at most {LARGEST} are allowed")
        return cls(text, compiled)

    def matches(self, whole: str) -> bool:
        """Whether it matches this text from begin to end."""
        return self._compiled.fullmatch(whole) is not None
