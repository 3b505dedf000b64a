"""Parsed entries for the dispatchers, and their MESSAGE frames: in C if the extension is built, else in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from readonly_engine import native
from readonly_engine.wire.commands import encode_message_frame
from readonly_engine.wire.message import parse_stored
from readonly_engine.wire.position import Position
from readonly_engine.wire.sticky_key import stored_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.wire.entry import Entry


class PureEntryView:
    """A parsed entry.

    Args:
        entry: the entry, verified.

    Attributes:
        ledger_id: its ledger.
        entry_id: its number there.
        position: both.
        stored: the payload as the owner stored it.
        payload: the bytes for a MESSAGE frame without the owner's own metadata.
        prefix: the owner's own metadata before them; usually empty.
        size: size of `stored`, in bytes.
        messages: number of its messages, which is its cost in permits.
        marker: whether it is hidden from consumers: a marker, or no message at all.
        deliver_at: earliest delivery on a Shared subscription, in ms since the epoch; 0 for no delay.
        txn: the transaction of the message, or that the marker ends: most and least bits; None for none.
        aborts: whether it is the marker of an aborted transaction.
        chunk: for a part of a large message: the message's id, the part's index, and the number of parts; else None.
    """

    __slots__ = (
        "_frames",
        "_sticky_hash",
        "aborts",
        "chunk",
        "deliver_at",
        "entry_id",
        "ledger_id",
        "marker",
        "messages",
        "payload",
        "position",
        "size",
        "stored",
        "txn",
    )

    def __init__(self, entry: Entry) -> None:
        self.ledger_id, self.entry_id, _, _, self.stored = entry
        self.position = Position(self.ledger_id, self.entry_id)
        parsed = parse_stored(self.stored)
        self.payload, self.messages, self.marker, self.deliver_at, self.txn, self.aborts, self.chunk = parsed
        self.size = len(self.stored)
        self._sticky_hash: int | None = None
        self._frames: dict[tuple[int, int, bool], bytes] | None = None

    @property
    def prefix(self) -> bytes:
        """The owner's own metadata before the payload; usually empty."""
        return self.stored[: self.size - len(self.payload)]

    @property
    def sticky_hash(self) -> int:
        """The hash of its key for Key_Shared, 31 bits."""
        if self._sticky_hash is None:
            self._sticky_hash = stored_hash(self.stored)
        return self._sticky_hash


def pure_encode_views(
    views: Sequence[PureEntryView],
    consumer_id: int,
    partition: int,
    epoch: int,
    redelivery_count: int = 0,
    exposed: bool = False,
) -> bytes:
    """Return the MESSAGE frames of entries, one after another.

    Args:
        views: the entries.
        consumer_id: the consumer's id on its connection.
        partition: index of the partition, -1 for none.
        epoch: the consumer's epoch, NO_EPOCH for none.
        redelivery_count: number of their earlier deliveries.
        exposed: whether to send the owner's own metadata, too.
    """
    frames = [
        encode_message_frame(
            consumer_id,
            view.ledger_id,
            view.entry_id,
            partition,
            view.stored if exposed else view.payload,
            redelivery_count,
            epoch,
        )
        for view in views
    ]
    return frames[0] if len(frames) == 1 else b"".join(frames)


def pure_encode_pieces(
    views: Sequence[PureEntryView], consumer_id: int, partition: int, epoch: int, exposed: bool = False
) -> list[bytes | memoryview]:
    """Return the frames of `pure_encode_views` as pieces to be written one after another.

    In C there are two of each frame: its head, and the stored payload itself, without a copy.

    Args: as for `pure_encode_views`.
    """
    return [pure_encode_views((view,), consumer_id, partition, epoch, 0, exposed) for view in views]


def pure_summarize(views: Sequence[PureEntryView]) -> tuple[int, int, bool, bool]:
    """Return totals and flags of several entries.

    Returns:
        The number of their messages; their size in bytes; whether all are plain: no markers, no transactions; and whether all
        are loose: not delayed, and no parts of large messages.
    """
    return (
        sum([view.messages for view in views]),
        sum([view.size for view in views]),
        not any(view.marker or view.txn for view in views),
        not any(view.deliver_at or view.chunk for view in views),
    )


_V = TypeVar("_V", bound=PureEntryView)


def pure_views_of_slots(views: Sequence[_V], slots: bytes, sticky: bool = False) -> list[_V]:
    """Return the entries whose keys are in a set of slots.

    Args:
        views: the entries.
        slots: the slots as bits, lowest first. A key's slot is its hash, modulo the number of slots but the first one, plus 1.
        sticky: whether it is the hash, modulo the number of slots, and 1 for 0 (KeySharedMode.STICKY).
    """
    count = len(slots) * 8
    if sticky:
        return [view for view in views if _has(slots, view.sticky_hash % count or 1)]
    return [view for view in views if _has(slots, view.sticky_hash % (count - 1) + 1)]


def _has(slots: bytes, slot: int) -> int:
    return slots[slot >> 3] >> (slot & 7) & 1


_native = native.load("readonly_engine.wire._entries")

if TYPE_CHECKING or _native is None:  # noqa: SIM108 - a variable is no base class to a type checker
    EntryView = PureEntryView
else:
    EntryView = _native.EntryView


_W = TypeVar("_W", bound=EntryView)


class _EncodeViews(Protocol):
    def __call__(
        self,
        views: Sequence[EntryView],
        consumer_id: int,
        partition: int,
        epoch: int,
        redelivery_count: int = 0,
        exposed: bool = False,
        /,
    ) -> bytes: ...


encode_views: Final[_EncodeViews] = pure_encode_views if _native is None else _native.encode_views
"""As `pure_encode_views`."""


class _EncodePieces(Protocol):
    def __call__(
        self,
        views: Sequence[EntryView],
        consumer_id: int,
        partition: int,
        epoch: int,
        exposed: bool = False,
        /,
    ) -> list[bytes | memoryview]: ...


encode_pieces: Final[_EncodePieces] = pure_encode_pieces if _native is None else _native.encode_pieces
"""As `pure_encode_pieces`."""

summarize: Final[Callable[[Sequence[EntryView]], tuple[int, int, bool, bool]]] = (
    pure_summarize if _native is None else _native.summarize
)
"""As `pure_summarize`."""


class _ViewsOfSlots(Protocol):
    def __call__(self, views: Sequence[_W], slots: bytes, sticky: bool = False, /) -> list[_W]: ...


views_of_slots: Final[_ViewsOfSlots] = pure_views_of_slots if _native is None else _native.views_of_slots
"""As `pure_views_of_slots`."""
