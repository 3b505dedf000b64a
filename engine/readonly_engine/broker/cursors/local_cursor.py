"""One cursor that the pool keeps, and the cursor of its consumers while it has some. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.cursor_records import Range, SubscriptionDefinition


class ServedCursor(Protocol):
    """The cursor of a subscription that has consumers.

    Attributes:
        mark_delete: every entry up to here is acked.
    """

    mark_delete: Position

    @property
    def has_acked_ranges(self) -> bool:
        """Whether entries after the mark-delete position are acked."""

    @property
    def has_batches(self) -> bool:
        """Whether there are partly acked batches."""

    @property
    def batches(self) -> list[tuple[Position, int]]:
        """Partly acked batches, with the bits of their unacked messages."""

    @property
    def acked_after_mark_delete(self) -> tuple[Range, ...]:
        """The acked ranges after the mark-delete position."""


class LocalCursor:
    """A cursor that the pool keeps.

    Attributes:
        definition: the subscription at its creation.
        page: number of its page.
        generation: changes at each reset, and is unique in the topic; acks of other generations do not count.
        mark_delete: every entry up to here is acked.
        ranges: acked ranges after it.
        batches: partly acked batches after it, with the bits of their unacked messages.
        served: the cursor while the subscription has consumers; the attributes above are then those of the last list of changes.
    """

    __slots__ = ("batches", "definition", "generation", "mark_delete", "page", "ranges", "segments", "served")

    def __init__(self, page: int, definition: SubscriptionDefinition) -> None:
        self.page = page
        self.definition = definition
        self.generation = definition.generation
        self.mark_delete = definition.start
        self.ranges: tuple[Range, ...] = ()
        self.batches: tuple[tuple[Position, int], ...] = ()
        self.served: ServedCursor | None = None
        self.segments = 0  # records of its acks in the topic

    @property
    def name(self) -> str:
        """Name of the subscription."""
        return self.definition.name

    def refresh(self) -> None:
        """Copy the state of the served cursor."""
        served = self.served
        if served is not None:
            self.mark_delete = served.mark_delete
            if served.has_acked_ranges:
                self.ranges = served.acked_after_mark_delete
            elif self.ranges:
                self.ranges = ()
            if served.has_batches:
                self.batches = tuple(served.batches)
            elif self.batches:
                self.batches = ()
