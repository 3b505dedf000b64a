"""The shapes of benches that each constant of a plan comes from, for plans that leave one of them out.

A shape is named as in docsite/prediction.py. The sources are those of readonly_engine/sizing/measured.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from readonly_engine.sizing import measured

Key = tuple[str, str]
"""Quantity and shape."""

POOL: Final = "read-only broker, CPU, us per second"
OWNER: Final = "owner, CPU of the readers, us per second"
POOL_BACKLOG: Final = "read-only broker, CPU, us per MB of a backlog"
OWNER_BACKLOG: Final = "owner, CPU, us per MB of a backlog"
MEMORY: Final = "read-only broker, memory, bytes"


@dataclass(frozen=True)
class Constant:
    """A constant, or one point of a table of constants.

    Attributes:
        name: its name in measured.py.
        sources: shapes that it comes from.
        substitutes: further shapes that determine it.
        point: the place in the table, such as topics; None for a single constant.
    """

    name: str
    sources: frozenset[Key]
    substitutes: frozenset[Key] = frozenset()
    point: float | None = None

    @property
    def place(self) -> int:
        """Index of the point."""
        return [one[0] for one in getattr(measured, self.name)].index(self.point)

    @property
    def value(self) -> float:
        """The expected value."""
        found = getattr(measured, self.name)
        return float((found if self.point is None else found[self.place][1]).expected)

    def others(self, quantity: str, shape: str) -> frozenset[Key]:
        """Return the shapes that determine it without this one."""
        return (self.sources | self.substitutes) - {(quantity, shape)}


def _of(quantity: str, *shapes: str) -> frozenset[Key]:
    return frozenset((quantity, shape) for shape in shapes)


def _fan_out(readers: str, *contents: str) -> tuple[str, ...]:
    return tuple(f"fan-out: {readers}, {content}" for content in contents)


_SMALL: Final = ("1,024 B", "100 B", "1,024 B, batched")
_LARGE: Final = "16,384 B"
_SHARED: Final = (
    "shared: 100 x 2,000/s, 1,024 B",
    "shared: 100 x 5,000/s, 1,024 B",
    "shared: 100 x 5,000/s, 1,024 B, batched",
)
_FEW: Final = {
    1: "few-readers: 1 x 1,000/s, 1,024 B",
    **{count: f"few-readers: {count:,} topics, {count:,} x 200/s, 1,024 B" for count in (10, 100, 1_000, 5_000)},
}
_IDLE: Final = ("idle-topics: 5,000 topics, 50 connections", "idle-topics: 5,000 topics, 5,000 connections")

CONSTANTS: Final = (
    *(Constant("WAKE_US", _of(POOL, name), point=count) for count, name in _FEW.items()),
    Constant("WRITE_US", _of(POOL, *_fan_out("1,000 x 10/s", *_SMALL))),
    Constant(
        "MESSAGE_US",
        _of(POOL, "saturation: 20 x 10,000/s, 100 B"),
        _of(POOL, *_fan_out("50 x 1,000/s", "1,024 B", "100 B")),
    ),
    Constant(
        "SENT_KB_US",
        _of(POOL, *_fan_out("200 x 100/s", _LARGE, "1,024 B"), *_fan_out("1,000 x 10/s", _LARGE, "1,024 B")),
        point=16,
    ),
    Constant("SENT_KB_US", _of(POOL, *_fan_out("50 x 1,000/s", _LARGE, "1,024 B")), point=64),
    Constant("SHARED_MESSAGE_US", _of(POOL, *_SHARED)),
    Constant("OPEN_TOPIC_US", _of(POOL, _IDLE[0]), _of(POOL, _IDLE[1])),
    Constant("READ_ENTRY_US", _of(POOL_BACKLOG, "catch-up: 100 B"), _of(POOL_BACKLOG, "catch-up: 1,024 B")),
    Constant("READ_KB_US", _of(POOL_BACKLOG, "catch-up: 1,024 B, batched"), _of(POOL_BACKLOG, "catch-up: 1,024 B")),
    Constant("TOPIC_BYTES", _of(MEMORY, *_IDLE)),
    *(Constant("CONSUMER_BYTES", _of(MEMORY, f"subscriptions: {one:,}"), point=one) for one in (10_000, 40_000)),
    Constant("OWNER_DELIVERY_US", _of(OWNER, *_fan_out("1,000 x 10/s", *_SMALL)), point=10.0),
    Constant("OWNER_DELIVERY_US", _of(OWNER, *_fan_out("200 x 100/s", *_SMALL)), point=100.0),
    Constant("OWNER_DELIVERY_US", _of(OWNER, *_fan_out("50 x 1,000/s", "1,024 B", "100 B")), point=1_000.0),
    Constant("OWNER_DELIVERY_US", _of(OWNER, "saturation: 20 x 5,000/s, 1,024 B"), point=5_000.0),
    Constant("OWNER_DELIVERY_US", _of(OWNER, "saturation: 20 x 10,000/s, 100 B"), point=10_000.0),
    Constant(
        "OWNER_KB_US",
        _of(
            OWNER,
            *(
                name
                for one in ("50 x 1,000/s", "200 x 100/s", "1,000 x 10/s")
                for name in _fan_out(one, _LARGE, "1,024 B")
            ),
        ),
    ),
    Constant("OWNER_MAX_WAKES", _of(OWNER, _FEW[1])),
    Constant("OWNER_WAKE_US", _of(OWNER, *(_FEW[one] for one in (10, 100, 1_000)))),
    Constant("OWNER_ACK_COMMAND_US", _of(OWNER, *_SHARED)),
    Constant("OWNER_ACKED_ENTRY_US", _of(OWNER, *_SHARED)),
    Constant("OWNER_READ_ENTRY_US", _of(OWNER_BACKLOG, "catch-up: 1,024 B", "catch-up: 100 B")),
    Constant("OWNER_READ_KB_US", _of(OWNER_BACKLOG, "catch-up: 1,024 B, batched")),
)
"""Constants whose sources are files of results; those of other tables stay as they are."""
