"""Detection of a worker that no longer answers over HTTP: a pure state machine, which counts answers.

The kubelet asks the parent only, and the parent is alive when a worker hangs. Without this, nothing would restart that worker.
It counts missed probes, not seconds, so a resumed machine does not report its workers as hung.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PERIOD_S: Final = 5.0
"""Time between two questions, and the longest wait for an answer."""

MAX_SILENT: Final = 6
"""Questions in a row without an answer after which a worker hangs: 30 s, as long as the kubelet's default waits for a process."""

MAX_SILENT_AT_START: Final = 24
"""The same before its first answer: 2 min, longer than any dependency is waited for."""


@dataclass(slots=True)
class Liveness:
    """Answers of one process.

    Attributes:
        heard: whether it has answered at any time.
        silent: questions in a row without an answer.
    """

    heard: bool = False
    silent: int = 0

    def answered(self) -> None:
        """Record an answer of the process, to whatever question."""
        self.heard, self.silent = True, 0

    def hangs(self) -> bool:
        """Record a question without an answer.

        Returns:
            Whether the process has been silent for too long, so that it must be restarted.
        """
        self.silent += 1
        return self.silent >= (MAX_SILENT if self.heard else MAX_SILENT_AT_START)
