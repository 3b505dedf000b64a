"""A clock that the test moves."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Stands for `time.monotonic`: returns the seconds that the test has set."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
