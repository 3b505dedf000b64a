"""What a query's filters exclude: topics, partitions, ledgers and times that need not be read. Pure.

Spark evaluates every filter again on the rows, so a filter that is not understood excludes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from readonly_spark.plan.topic_state import TopicState

_LOWER: Final = {"EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"}
_UPPER: Final = {"EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"}
_EQUAL: Final = {"EqualTo", "EqualNullSafe"}


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of the topics that rows of a query can come from; None for no bound.

    Attributes:
        topics: names of topics, without a partition's suffix.
        partitions: numbers of partitions; -1 for a topic without partitions.
        first_ledger: the first ledger.
        last_ledger: the last ledger, included.
        from_ms: the earliest publish time, in ms since the epoch.
        to_ms: the latest publish time, included.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_ledger: int | None = None
    last_ledger: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    def selects(self, name: str) -> bool:
        """Return whether rows can come from a topic or partition."""
        topic = parse_topic_name(name)
        if self.topics is not None and str(topic.base) not in self.topics:
            return False
        return self.partitions is None or topic.partition in self.partitions

    def range_of(self, state: TopicState, start: Position, end: Position) -> tuple[Position, Position]:
        """Return the part of a range that lies in the ledgers.

        It begins and ends at ledgers that exist, or in those that compaction covered: their entries have their old positions.
        """
        if self.first_ledger is not None and start.ledger_id < self.first_ledger:
            start = Position(self.first_ledger, 0)
            if state.compacted is None or start > state.horizon:
                later = (ledger.ledger_id for ledger in state.ledgers if ledger.ledger_id >= self.first_ledger)
                start = min(Position(next(later, end.ledger_id), 0), end)
        if self.last_ledger is not None and end.ledger_id > self.last_ledger:
            earlier = [ledger for ledger in state.ledgers if ledger.ledger_id <= self.last_ledger]
            end = Position(earlier[-1].ledger_id, earlier[-1].last + 1) if earlier else start
            if state.compacted is not None and end <= state.horizon:
                end = Position(self.last_ledger + 1, 0)
        return start, max(start, end)


def selection_of(filters: Iterable[Any]) -> Selection:
    """Return what filters leave, all of which a row must meet.

    Args:
        filters: filters of `pyspark.sql.datasource`, by their names and attributes.
    """
    found = Selection()
    for one in filters:
        column = getattr(one, "attribute", None)
        rule = _RULES.get(column[0]) if isinstance(column, tuple) and len(column) == 1 else None
        if rule is not None:
            found = rule(found, type(one).__name__, getattr(one, "value", None))
    return found


def _topics(found: Selection, name: str, value: Any) -> Selection:
    values = _values(name, value, str)
    return found if values is None else replace(found, topics=_both(found.topics, values))


def _partitions(found: Selection, name: str, value: Any) -> Selection:
    values = frozenset({-1}) if name == "IsNull" else _values(name, value, int)
    return found if values is None else replace(found, partitions=_both(found.partitions, values))


def _ledgers(found: Selection, name: str, value: Any) -> Selection:
    values = _values(name, value, int)
    low, high = (min(values), max(values)) if values else (value, value)
    if not isinstance(low, int) or not isinstance(high, int):
        return found
    if name in _LOWER or values:
        found = replace(found, first_ledger=_highest(found.first_ledger, low))
    if name in _UPPER or values:
        found = replace(found, last_ledger=_lowest(found.last_ledger, high))
    return found


def _times(found: Selection, name: str, value: Any) -> Selection:
    if not isinstance(value, datetime):
        return found
    moment = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp() * 1000
    if name in _LOWER:
        found = replace(found, from_ms=_highest(found.from_ms, int(moment // 1)))
    if name in _UPPER:
        found = replace(found, to_ms=_lowest(found.to_ms, int(-(-moment // 1))))
    return found


_RULES: Final[dict[str, Callable[[Selection, str, Any], Selection]]] = {
    "topic": _topics,
    "partition": _partitions,
    "ledgerId": _ledgers,
    "publishTime": _times,
}


def _values(name: str, value: Any, kind: type) -> frozenset[Any] | None:
    """Return the values that a filter allows; None if it is no list of values."""
    if name in _EQUAL and isinstance(value, kind):
        return frozenset({value})
    if name == "In" and isinstance(value, tuple | list) and all(isinstance(one, kind) for one in value):
        return frozenset(value)
    return None


def _both(known: frozenset[Any] | None, values: frozenset[Any]) -> frozenset[Any]:
    return values if known is None else known & values


def _highest(known: int | None, value: int) -> int:
    return value if known is None else max(known, value)


def _lowest(known: int | None, value: int) -> int:
    return value if known is None else min(known, value)
