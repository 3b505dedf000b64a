"""One answer for a request that goes as several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import BaseCommand

if TYPE_CHECKING:
    from collections.abc import Callable


class AllAnswers:
    """Waits for the answers to all parts.

    Args:
        parts: how many there are.
        answered: gets an answer that refuses a part, if any does, else the last; None when any part gets no answer, once.
    """

    __slots__ = ("_answered", "_left", "_refusal")

    def __init__(self, parts: int, answered: Callable[[BaseCommand | None], None]) -> None:
        self._left = parts
        self._answered = answered
        self._refusal: BaseCommand | None = None

    def answered(self, response: BaseCommand | None) -> None:
        """A part was answered."""
        if not self._left:
            return  # a part before it has got no answer
        if response is None:
            self._left = 0
            self._answered(None)
            return
        self._left -= 1
        if self._refusal is None and (response.type == BaseCommand.ERROR or body_of(response).HasField("error")):
            self._refusal = response
        if not self._left:
            self._answered(self._refusal or response)
