"""Planning on the driver: from options and offsets to tasks, for batch and streaming queries."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import EARLIEST as FIRST
from readonly_engine.topic.position import Position

from readonly_spark.errors import DataLossError, DeletedLedgerError, SourceError
from readonly_spark.outages import is_transient
from readonly_spark.plan.admission import Limits, admit
from readonly_spark.plan.open_chunks import hold_position
from readonly_spark.plan.splits import split
from readonly_spark.position_options import EARLIEST, LATEST
from readonly_spark.rows.partial_entry import PartialEntry
from readonly_spark.task import (
    EARLIER_LEDGERS,
    CompactedRange,
    LedgerLocation,
    TaskPlan,
    TaskRange,
    task_read_rate,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Any

    from readonly_engine.bookkeeper.errors import BookKeeperError

    from readonly_spark.options import Options
    from readonly_spark.plan.catalog import Catalog
    from readonly_spark.plan.topic_state import EntryRange, ReadableLedger, TopicState
    from readonly_spark.values.schema import ValueSchema

log = logging.getLogger(__name__)

MAX_LOOKUPS: Final = 3
"""Lookups of the topics for one plan: a compaction, or a trim, may delete a ledger after a lookup."""


class Planner:
    """Plan a query. Every method runs on the catalog's event loop.

    Args:
        catalog: access to the cluster.
        options: the options of the source.
    """

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self._catalog = catalog
        self._options = options

    @property
    def _sample(self) -> bool:
        options = self._options
        return any((options.partition_records, options.trigger_messages, options.min_trigger_messages))

    def check_topics(self, starts: Mapping[str, Position], ends: Mapping[str, Position]) -> None:
        """Check that a micro-batch has every topic of its start.

        Spark 4.0 and 4.1 do not tell the start to those who plan the end.

        Raises:
            DataLossError: a topic was deleted, and `failOnDataLoss` is true.
        """
        if self._options.fail_on_data_loss:
            for name in sorted(starts.keys() - ends.keys()):
                if self._catalog.selection.selects(name):
                    self._lost(name, deleted_from(starts[name]))

    async def remaining_states(self) -> dict[str, TopicState]:
        """Return the current state of all topics of the options; with `failOnDataLoss=false` without the deleted ones."""
        return await self._catalog.states(await self._catalog.selection.remaining(), sample=self._sample)

    async def states(
        self, names: Iterable[str] | None = None, known: Mapping[str, Position] | None = None
    ) -> dict[str, TopicState]:
        """Return the current state of topics, all of which can be read; see `reachable_states`.

        Raises:
            BookKeeperError: a topic cannot be read now.
        """
        found, failed = await self.reachable_states(names, known)
        if failed:
            raise min(failed.values(), key=is_transient)
        return found

    async def reachable_states(
        self, names: Iterable[str] | None = None, known: Mapping[str, Position] | None = None
    ) -> tuple[dict[str, TopicState], dict[str, BookKeeperError]]:
        """Return the current state of topics, and the errors of those that cannot be read now.

        Args:
            names: topics and partitions; None for all topics of the options.
            known: the topics that the stream has read before, with their next entries; empty if that is not known. None for a
                query that begins: a named topic that does not exist is a mistake then.

        Returns:
            Both by topic; topics that do not exist, or that have no ledgers, are in neither.

        Raises:
            DataLossError: a known topic was deleted, and `failOnDataLoss` is true.
            SourceError: a topic that was not known before does not exist.
        """
        before = known or {}
        lenient = known is not None and not self._options.fail_on_data_loss
        topics = await self._catalog.selection.topics(None if lenient else before) if names is None else names
        found, failed = await self._catalog.reachable_states(topics, sample=self._sample)
        for name in sorted(before.keys() - found.keys() - failed.keys()):
            if self._catalog.selection.selects(name):
                self._lost(name, deleted_from(before[name]))
        return found, failed

    async def starts(self, states: Mapping[str, TopicState], default: str) -> dict[str, Position]:
        """Return the start of each topic by the options.

        Raises:
            SourceError: `startingOffsets` or `startingIndex` does not match the topics, or a topic has no message there.
            DataLossError: the message of `startingIndex` was trimmed, and `failOnDataLoss` is true.
        """
        options = self._options
        if options.starting_index is not None:
            return await self._of_indexes("startingIndex", states, options.starting_index)
        found = await self._positions(states, "startingOffsets", options.starting, options.starting_ms, default)
        if options.later_required:
            self._check_later(states, found)
        return found

    def _check_later(self, states: Mapping[str, TopicState], starts: Mapping[str, Position]) -> None:
        """Check that topics with a time of the start have a message there.

        Raises:
            SourceError: a topic has none.
        """
        options = self._options
        chosen = options.starting if isinstance(options.starting, dict) else {}
        for name, start in sorted(starts.items()):
            timed = options.starting_ms is not None or isinstance(chosen.get(name), int)
            if timed and start >= states[name].latest:
                option = "startingTimestamp" if options.starting_ms is not None else "startingOffsets"
                raise SourceError(
                    f"{option}: {name} has no message at this publish time or later; set startingTimestampStrategy=latest to "
                    "start at its end"
                )

    async def _of_indexes(
        self, option: str, states: Mapping[str, TopicState], chosen: int | dict[str, int], *, end: bool = False
    ) -> dict[str, Position]:
        numbers = dict.fromkeys(states, chosen) if isinstance(chosen, int) else chosen
        self._check_names(option, numbers, states)
        found = await self._catalog.positions_of_indexes({name: numbers[name] for name in states}, end=end)
        for name, start in found.items():
            number = numbers[name]
            if start.first is not None:
                if start.first > number and not end:
                    self._lost(name, f"messages {number} to {start.first - 1} are lost")
            elif start.newest is not None:
                if number > start.newest + 1:
                    raise SourceError(
                        f"{option}: {name} has no message {number} yet; its next one has the number {start.newest + 1}"
                    )
            elif number or not start.empty:
                edge = option.removesuffix("Index")
                why = "has no message" if start.empty else "does not store the numbers of its messages"
                raise SourceError(
                    f"{option}: {name} {why}, so message {number} cannot be found; use {edge}Offsets or {edge}Timestamp. "
                    "Brokers with AppendIndexMetadataInterceptor in brokerEntryMetadataInterceptors store them"
                )
        return {name: min(start.position, states[name].latest) for name, start in found.items()}

    async def ends(self, states: Mapping[str, TopicState]) -> dict[str, Position]:
        """Return the end of each topic by the options, at most its readable end.

        Raises:
            SourceError: `endingOffsets` or `endingIndex` does not match the topics, or a topic has no message there.
        """
        options = self._options
        if options.ending_index is not None:
            return await self._of_indexes("endingIndex", states, options.ending_index, end=True)
        found = await self._positions(states, "endingOffsets", options.ending, options.ending_ms, LATEST)
        return {name: min(position, states[name].latest) for name, position in found.items()}

    async def _positions(
        self,
        states: Mapping[str, TopicState],
        option: str,
        chosen: str | dict[str, str | int | Position] | None,
        timestamp: int | None,
        default: str,
    ) -> dict[str, Position]:
        if timestamp is not None:
            found = await self._catalog.positions_at(states, timestamp)
            return {name: min(position, states[name].latest) for name, position in found.items()}
        where = default if chosen is None else chosen
        if isinstance(where, dict):
            self._check_names(option, where, states)
            places = where
        else:
            places = dict.fromkeys(states, where)
        words = {EARLIEST: lambda state: state.earliest, LATEST: lambda state: state.latest}
        times = {name: place for name, place in places.items() if isinstance(place, int) and name in states}
        at: dict[str, Position] = {}
        for moment in set(times.values()):
            at |= await self._catalog.positions_at([name for name, one in times.items() if one == moment], moment)
        positions: dict[str, Position] = {}
        for name, place in places.items():
            if name not in states:
                continue
            if isinstance(place, int):
                positions[name] = min(at[name], states[name].latest)
            else:
                positions[name] = words[place](states[name]) if isinstance(place, str) else place
        return positions

    def _check_names(self, option: str, named: Mapping[str, object], states: Mapping[str, TopicState]) -> None:
        unknown = sorted(named.keys() - states.keys())
        if unknown:
            raise SourceError(
                f"{option} names {unknown[0]}, which is not read; name each partition of a partitioned topic"
            )
        missing = sorted(states.keys() - named.keys())
        if missing:
            raise SourceError(f"{option} does not name {missing[0]}; name every topic or partition that is read")

    def admit(
        self,
        starts: Mapping[str, Position],
        states: Mapping[str, TopicState],
        ends: Mapping[str, Position],
        limits: Limits,
    ) -> dict[str, Position]:
        """Return the end of a micro-batch; see `admission.admit`. A deleted topic has none."""
        reachable = {name: max(end, starts.get(name, FIRST)) for name, end in ends.items()}
        return admit(starts, states, reachable, limits)

    async def hold_position(self, state: TopicState, end: Position) -> Position | None:
        """Return the first entry to hold back of a topic that was read up to `end`; see `open_chunks.hold_position`."""
        topic, samples = parse_topic_name(state.name), self._catalog.samples
        return await hold_position(state, end, lambda ledger, first, last: samples.entries(topic, ledger, first, last))

    async def tasks_of(self, ranges: Callable[[], Awaitable[tuple[Any, ...]]]) -> list[TaskPlan]:
        """Return the tasks of ranges, which are looked up again if a ledger of them was deleted meanwhile.

        A compaction deletes the ledger of the one before it, and a trim deletes ledgers that every cursor has left. The newer
        lookup reads the newer view, or finds a gap.

        Args:
            ranges: looks the topics up, and returns the first arguments of `tasks`.

        Raises:
            DataLossError, SourceError: see `tasks`.
        """
        for _ in range(MAX_LOOKUPS - 1):
            try:
                return await self.tasks(*await ranges(), stored=True)
            except DeletedLedgerError as error:
                log.info("the topics are looked up again: %s", error)
        return await self.tasks(*await ranges())

    async def tasks(
        self,
        states: Mapping[str, TopicState],
        starts: Mapping[str, Position],
        ends: Mapping[str, Position],
        following: Mapping[str, int] | None = None,
        in_batch: Mapping[str, int] | None = None,
        *,
        stored: bool = False,
    ) -> list[TaskPlan]:
        """Return the tasks from `starts` up to, not including, `ends`; a topic without a start is read from its first entry on.

        The ends must be confirmed: this plan or an earlier one read the LAC.

        Args:
            states: the topics.
            starts: the first entry to read of each.
            ends: the position after the last one.
            following: the ledger after that of the start, of topics whose start was the end of its ledger; None for a batch
                query.
            in_batch: the batch index of the first message to read, of topics whose first entry is read in part; None for those of
                the options.
            stored: whether a ledger that was deleted after the lookup of the topics is an error of its own.

        Raises:
            DataLossError: entries no longer exist, and `failOnDataLoss` is true.
            DeletedLedgerError: a ledger was deleted meanwhile, and `stored` is true.
            SourceError: a topic cannot be read.
        """
        ranges: list[EntryRange] = []
        bounds: dict[str, CompactedRange] = {}
        for name, end in sorted(ends.items()):
            start = starts.get(name, FIRST)
            if start >= end:
                continue
            state = states.get(name)
            if state is None:
                self._lost(name, f"the topic was deleted; entries from {start} up to, not including, {end} are lost")
                continue
            state = state.confirmed_to(end)
            gap = state.gap(start, end, (following or {}).get(name)) or state.end_gap(start, end)
            if gap is not None:
                self._lost(name, f"entries {gap} were trimmed, or may have been")
            if state.limit is not None and end > state.limit:
                raise SourceError(f"{name}: a transaction is open at {state.limit}, before the end of the range, {end}")
            ranges += state.entry_ranges(start, end)
            bounds[name] = CompactedRange(start, end)
        options = self._options
        splits = split(
            ranges,
            max_bytes=options.partition_bytes,
            max_messages=options.partition_records,
            min_tasks=options.min_partitions,
        )
        # A stream that begins starts at the first entry; one that begins elsewhere is taken for a resumed one.
        resumed = (
            {}
            if following is None
            else {name: FIRST < starts.get(name, FIRST) != states[name].earliest for name in bounds}
        )
        partial = {
            name: self._partial(name, bound, self._options.starting_in_batch if in_batch is None else in_batch)
            for name, bound in bounds.items()
        }
        return await self._task_plans(states, splits, bounds, resumed, partial, stored=stored)

    def _partial(self, name: str, bound: CompactedRange, in_batch: Mapping[str, int]) -> tuple[PartialEntry, ...]:
        """Return the first entry of a topic and the last one, as far as they are read in part."""
        options = self._options
        parts = {bound.start: PartialEntry(bound.start, in_batch[name])} if name in in_batch else {}
        if name in options.ending_in_batch and isinstance(options.ending, dict) and options.ending[name] == bound.end:
            last = Position(bound.end.ledger_id, bound.end.entry_id - 1)
            parts[last] = replace(parts.get(last, PartialEntry(last)), end=options.ending_in_batch[name])
        return tuple(parts.values())

    def _lost(self, name: str, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{name}: {what}; set failOnDataLoss=false to read the rest")
        log.warning("%s: %s", name, what)

    async def _task_plans(
        self,
        states: Mapping[str, TopicState],
        splits: list[list[EntryRange]],
        bounds: Mapping[str, CompactedRange],
        resumed: Mapping[str, bool],
        partial: Mapping[str, tuple[PartialEntry, ...]],
        *,
        stored: bool,
    ) -> list[TaskPlan]:
        own = {one.ledger.ledger_id: one.ledger for ranges in splits for one in ranges}
        earlier = {
            ledger.ledger_id: ledger
            for ranges in splits
            for one in ranges
            for ledger in _preceding(states[one.topic], one.ledger)
        }
        ledgers = await self._catalog.locations(list({**earlier, **own}.values()))
        addresses = await self._catalog.addresses(ledgers.values())
        schemas = await self._catalog.value_schemas(bounds) if splits else {}
        rate = task_read_rate(self._options, len(splits))
        plans = []
        for ranges in splits:
            found = []
            for one in ranges:
                ledger = ledgers.get(one.ledger.ledger_id)
                if ledger is None:
                    what = f"ledger {one.ledger.ledger_id} was deleted"
                    if stored:
                        raise DeletedLedgerError(f"{one.topic}: {what}")
                    self._lost(one.topic, what)
                    continue
                preceding = _preceding(states[one.topic], one.ledger)
                scan = self._catalog.transactions.scanned(one.topic)
                compacted = one.ledger.compacted
                found.append(
                    TaskRange(
                        one.topic,
                        ledger,
                        one.first,
                        one.last,
                        aborted=frozenset() if scan is None or compacted else scan.aborted(ledger.ledger_id),
                        compacted=bounds[one.topic] if compacted else None,
                        earlier=tuple(ledgers[each.ledger_id] for each in preceding if each.ledger_id in ledgers),
                        resumed=resumed.get(one.topic, False),
                        partial=tuple(part for part in partial[one.topic] if compacted or _holds(one, part.position)),
                    )
                )
            if found:
                own_schemas = _schemas_of(schemas, found)
                plans.append(TaskPlan(tuple(found), _addresses_of(addresses, found), self._options, own_schemas, rate))
        return plans


def deleted_from(position: Position) -> str:
    """Return what is lost of a deleted topic."""
    return f"the topic was deleted; entries from {position} on are lost, if there were any"


def _holds(entries: EntryRange, position: Position) -> bool:
    return entries.ledger.ledger_id == position.ledger_id and entries.first <= position.entry_id <= entries.last


def _preceding(state: TopicState, ledger: ReadableLedger) -> list[ReadableLedger]:
    """Return the last ledgers of a topic before another one, nearest first."""
    if ledger.compacted:
        return []
    ledgers = [one for one in state.ledgers if one.ledger_id < ledger.ledger_id and one.last >= 0]
    return ledgers[: -EARLIER_LEDGERS - 1 : -1]


def _schemas_of(schemas: Mapping[str, ValueSchema], ranges: Iterable[TaskRange]) -> dict[str, ValueSchema]:
    bases = {str(parse_topic_name(one.topic).base) for one in ranges}
    return {base: schemas[base] for base in sorted(bases & schemas.keys())}


def _addresses_of(addresses: Mapping[str, tuple[str, int]], ranges: Iterable[TaskRange]) -> dict[str, tuple[str, int]]:
    ledgers: list[LedgerLocation] = [ledger for one in ranges for ledger in (one.ledger, *one.earlier)]
    bookies = {
        bookie
        for ledger in ledgers
        if ledger.metadata is not None
        for _, ensemble in ledger.metadata.ensembles
        for bookie in ensemble
    }
    return {bookie: addresses[bookie] for bookie in sorted(bookies & addresses.keys())}
