"""One answer for a request that is sent as several commands. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import BaseCommand

if TYPE_CHECKING:
    from collections.abc import Callable


class ResponseAggregator:
    """Collects the answers to all parts of a request.

    Args:
        parts: number of parts.
        on_complete: called once, with None as soon as a part gets no answer. Otherwise it gets the first refusal, or the last
            answer if there is no refusal.
    """

    __slots__ = ("_missing", "_on_complete", "_refusal")

    def __init__(self, parts: int, on_complete: Callable[[BaseCommand | None], None]) -> None:
        self._missing = parts
        self._on_complete = on_complete
        self._refusal: BaseCommand | None = None

    def on_response(self, response: BaseCommand | None) -> None:
        """Handle the answer to a part; None for none."""
        if not self._missing:
            return  # an earlier part has got no answer
        if response is None:
            self._missing = 0
            self._on_complete(None)
            return
        self._missing -= 1
        if self._refusal is None and (response.type == BaseCommand.ERROR or body_of(response).HasField("error")):
            self._refusal = response
        if not self._missing:
            self._on_complete(self._refusal or response)
