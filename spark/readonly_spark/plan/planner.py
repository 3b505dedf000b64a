"""Planning on the driver: from options and offsets to the work of tasks. The same for batches and streams."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import EARLIEST as FIRST
from readonly_engine.topic.position import Position

from readonly_spark.errors import DataLossError, SourceError
from readonly_spark.options import EARLIEST, LATEST
from readonly_spark.plan.admission import Limits, admit
from readonly_spark.plan.splits import split
from readonly_spark.task import Compacted, TaskLedger, TaskPiece, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_spark.options import Options
    from readonly_spark.plan.catalog import Catalog
    from readonly_spark.plan.splits import Piece
    from readonly_spark.plan.topic_state import LedgerState, TopicState

log = logging.getLogger(__name__)

EARLIER_LEDGERS: Final = 2
"""Ledgers before a task's own in which the first chunks of a message may be."""


class Planner:
    """Plans what is read. Every method runs on the catalog's event loop.

    Args:
        catalog: the cluster.
        options: what is wanted.
    """

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self._catalog = catalog
        self._options = options

    @property
    def _sample(self) -> bool:
        return self._options.partition_records is not None or self._options.trigger_messages is not None

    async def states(self, names: Iterable[str] | None = None) -> dict[str, TopicState]:
        """The wanted topics as they are now; those that hold nothing yet are left out."""
        return await self._catalog.states(await self._catalog.topics() if names is None else names, sample=self._sample)

    async def starts(self, states: Mapping[str, TopicState], default: str) -> dict[str, Position]:
        """Where each topic begins, by the options.

        Raises:
            SourceError: `startingOffsets` does not fit the topics.
        """
        options = self._options
        return await self._positions(states, "startingOffsets", options.starting, options.starting_ms, default)

    async def ends(self, states: Mapping[str, TopicState]) -> dict[str, Position]:
        """Where each topic ends, by the options: never behind what may be read.

        Raises:
            SourceError: `endingOffsets` does not fit the topics.
        """
        options = self._options
        found = await self._positions(states, "endingOffsets", options.ending, options.ending_ms, LATEST)
        return {name: min(position, states[name].latest) for name, position in found.items()}

    async def _positions(
        self,
        states: Mapping[str, TopicState],
        option: str,
        chosen: str | dict[str, str | Position] | None,
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
        return {
            name: words[place](states[name]) if isinstance(place, str) else place
            for name, place in places.items()
            if name in states
        }

    def _check_names(self, option: str, named: Mapping[str, object], states: Mapping[str, TopicState]) -> None:
        unknown = sorted(named.keys() - states.keys())
        if unknown:
            raise SourceError(
                f"{option} names {unknown[0]}, which is not read; of a partitioned topic each partition is named by itself"
            )
        missing = sorted(states.keys() - named.keys())
        if missing:
            raise SourceError(
                f"{option} does not name {missing[0]}; it would name every topic or partition that is read"
            )

    def admit(
        self,
        starts: Mapping[str, Position],
        states: Mapping[str, TopicState],
        ends: Mapping[str, Position],
        limits: Limits,
    ) -> dict[str, Position]:
        """Where a micro-batch ends; see `admission.admit`. A topic that is not there any more stays where it was."""
        reachable = {name: max(end, starts.get(name, FIRST)) for name, end in ends.items()}
        admitted = admit(starts, states, reachable, limits)
        return {**{name: start for name, start in starts.items() if name not in admitted}, **admitted}

    async def work(
        self, states: Mapping[str, TopicState], starts: Mapping[str, Position], ends: Mapping[str, Position]
    ) -> list[Work]:
        """The tasks that read from `starts` on and before `ends`; a topic without a start is read from its first entry on.

        The ends are confirmed: an earlier plan, or this one, has seen that they are.

        Raises:
            DataLossError: something of it is gone, and that is an error.
            SourceError: it cannot be read.
        """
        ranges = []
        bounds: dict[str, Compacted] = {}
        for name, end in sorted(ends.items()):
            start = starts.get(name, FIRST)
            if start >= end:
                continue
            state = states.get(name)
            if state is None:
                self._lost(name, f"the topic is gone; entries from {start} on and before {end} were to be read")
                continue
            state = state.confirmed_to(end)
            gap = state.gap(start, end) or state.missing_end(start, end)
            if gap is not None:
                self._lost(name, f"entries {gap} are gone, or may be: they were trimmed")
            if state.limit is not None and end > state.limit:
                raise SourceError(
                    f"{name}: a transaction is open at {state.limit}, before the end of what was to be read, {end}"
                )
            ranges.append((name, list(state.runs(start, end))))
            bounds[name] = Compacted(start, end)
        options = self._options
        tasks = split(
            ranges,
            most_bytes=options.partition_bytes,
            most_messages=options.partition_records,
            least_tasks=options.min_partitions,
        )
        return await self._tasks(states, tasks, bounds)

    def _lost(self, name: str, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{name}: {what}. failOnDataLoss=false reads what is left")
        log.warning("%s: %s", name, what)

    async def _tasks(
        self, states: Mapping[str, TopicState], tasks: list[list[Piece]], bounds: Mapping[str, Compacted]
    ) -> list[Work]:
        wanted = {piece.ledger.ledger_id: piece.ledger for task in tasks for piece in task}
        before = {
            ledger.ledger_id: ledger
            for task in tasks
            for piece in task
            for ledger in _before(states[piece.topic], piece.ledger)
        }
        ledgers = await self._catalog.task_ledgers(list({**before, **wanted}.values()))
        addresses = await self._catalog.addresses(ledgers.values())
        schemas = await self._catalog.value_schemas(bounds) if tasks else {}
        found = []
        for task in tasks:
            pieces = []
            for piece in task:
                ledger = ledgers.get(piece.ledger.ledger_id)
                if ledger is None:
                    self._lost(piece.topic, f"ledger {piece.ledger.ledger_id} was deleted")
                    continue
                earlier = _before(states[piece.topic], piece.ledger)
                scan = self._catalog.transactions.known(piece.topic)
                compacted = piece.ledger.compacted
                pieces.append(
                    TaskPiece(
                        piece.topic,
                        ledger,
                        piece.first,
                        piece.last,
                        aborted=frozenset() if scan is None or compacted else scan.aborted(ledger.ledger_id),
                        compacted=bounds[piece.topic] if compacted else None,
                        earlier=tuple(ledgers[one.ledger_id] for one in earlier if one.ledger_id in ledgers),
                    )
                )
            if pieces:
                found.append(Work(tuple(pieces), _of(addresses, pieces), self._options, schemas))
        return found


def _before(state: TopicState, following: LedgerState) -> list[LedgerState]:
    """A topic's ledgers before another one, the nearest first."""
    if following.compacted:
        return []
    ledgers = [ledger for ledger in state.ledgers if ledger.ledger_id < following.ledger_id and ledger.last >= 0]
    return ledgers[: -EARLIER_LEDGERS - 1 : -1]


def _of(addresses: Mapping[str, tuple[str, int]], pieces: Iterable[TaskPiece]) -> dict[str, tuple[str, int]]:
    ledgers: list[TaskLedger] = [ledger for piece in pieces for ledger in (piece.ledger, *piece.earlier)]
    bookies = {
        bookie
        for ledger in ledgers
        if ledger.metadata is not None
        for _, ensemble in ledger.metadata.ensembles
        for bookie in ensemble
    }
    return {bookie: addresses[bookie] for bookie in sorted(bookies & addresses.keys())}
