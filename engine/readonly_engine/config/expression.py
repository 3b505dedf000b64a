"""Regular expressions of users, matched in time linear in the text. Brokers and operator share this module.

They are RE2 expressions, as in the API server. A backtracking engine such as Python's own would let one expression, for example
`(a+)+b`, block a broker or the operator for everybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import re2

SYNTAX = "RE2 syntax, which has no lookaround and no backreferences"
"""The accepted syntax, for error messages."""
MAX_LENGTH = 512
"""Characters of an expression, as in the schema of a ReadOnlyTopicBinding."""
MAX_PROGRAM_SIZE = 10_000
"""RE2 instructions of an expression: `x{1000}` has about 1,000, `.{1000}` 8,000."""
MEMORY_BYTES = 1 << 20
"""Memory of RE2 for one expression, with its caches. Less memory makes it slower, with the same result."""


class ExpressionError(ValueError):
    """An invalid or too large expression; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that must match the whole text.

    Attributes:
        text: the expression as the user wrote it.
    """

    text: str
    _compiled: Any

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Parse an expression.

        Raises:
            ExpressionError: it is invalid or too large.
        """
        if len(text) > MAX_LENGTH:
            raise ExpressionError(f"it has {len(text)} characters; at most {MAX_LENGTH} are allowed")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True  # no caller reads groups, and without them one pass is enough
        options.max_mem = MEMORY_BYTES
        try:
            compiled = re2.compile(text, options)
        except UnicodeEncodeError:
            raise ExpressionError("it is not valid Unicode") from None
        except re2.error as error:
            reason = error.args[0].decode(errors="replace")  # bytes, unlike other errors
            raise ExpressionError(f"{reason}; it must be in {SYNTAX}") from None
        if compiled.programsize > MAX_PROGRAM_SIZE:
            raise ExpressionError(
                f"it compiles to {compiled.programsize} instructions; at most {MAX_PROGRAM_SIZE} are allowed"
            )
        return cls(text, compiled)

    def matches(self, whole: str) -> bool:
        """Return whether the expression matches the text from begin to end."""
        return self._compiled.fullmatch(whole) is not None
