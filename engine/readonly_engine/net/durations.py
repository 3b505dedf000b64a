"""How many requests a server has answered, and how long that took. Pure."""

from __future__ import annotations


class Durations:
    """Total of some requests.

    Attributes:
        answers: requests with an answer, which may be a refusal.
        seconds: sum of the times until the answers.
    """

    __slots__ = ("answers", "seconds")

    def __init__(self) -> None:
        self.answers = 0
        self.seconds = 0.0

    def answered(self, seconds: float) -> None:
        """Count an answer."""
        self.answers += 1
        self.seconds += seconds

    def __add__(self, other: Durations) -> Durations:
        """Return the total of both."""
        found = Durations()
        found.answers, found.seconds = self.answers + other.answers, self.seconds + other.seconds
        return found
