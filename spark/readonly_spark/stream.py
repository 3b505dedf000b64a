"""Planning of a stream: from where to where each micro-batch reads. Spark's interface to it is in `source`."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerUnavailableError

from readonly_spark.connection import Connection
from readonly_spark.errors import SourceError
from readonly_spark.offsets import Offsets
from readonly_spark.outages import RetryWindow, is_transient
from readonly_spark.plan.admission import Limits, Waiting
from readonly_spark.position_options import LATEST
from readonly_spark.retention import RetentionSubscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from readonly_engine.topic.position import Position

    from readonly_spark.options import Options
    from readonly_spark.plan.topic_state import TopicState
    from readonly_spark.task import TaskPlan

log = logging.getLogger(__name__)


class StreamPlanner:
    """Plans the micro-batches of one stream. It connects at once.

    Offsets are dictionaries, as Spark passes them; see `offsets`.

    Args:
        options: the options of the source.

    Raises:
        SourceError: the cluster does not answer.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection = Connection(options)
        try:
            self._cluster = self._connection.call(self._connection.catalog.cluster_id)
            self._hold = None if options.hold is None else RetentionSubscription(options.hold, self._first_to_hold)
        except BaseException:
            self._connection.close()
            raise
        self._frozen: dict[str, Position] | None = None
        self._latest: dict[str, Position] = {}
        self._states: dict[str, TopicState] = {}
        self._last: Offsets | None = None
        self._outages = RetryWindow(options.retry_s)
        self._replaced: dict[str, int] = {}
        self._committed: dict[str, Position] = {}
        self._waiting = Waiting(options.min_trigger_messages, options.max_trigger_delay_s)

    def close(self) -> None:
        """Move the subscription that holds messages back, and close the connection."""
        hold = self._hold
        try:
            if hold is not None:
                self._connection.call(lambda: _last_move(hold, self._committed), retry=False)
        finally:
            self._connection.close()

    def commit(self, end: dict[str, Any]) -> None:
        """Note that the sink has everything up to an offset."""
        self._committed = dict(Offsets.from_dict(end, self._cluster).topics)
        self._move_hold()

    def _move_hold(self) -> None:
        """Move the subscription that holds messages back, if there is one, to what is committed."""
        if self._hold is not None and self._committed:
            hold, ends = self._hold, self._committed
            self._connection.call(lambda: hold.move(ends))

    async def _first_to_hold(self, name: str, end: Position) -> Position | None:
        """See RetentionSubscription; unknown as long as the topic was not looked up."""
        state = self._states.get(name)
        return None if state is None else await self._connection.planner.hold_position(state, end)

    def start(self) -> dict[str, Any]:
        """Return the start of a new query."""
        planner = self._connection.planner

        async def starts() -> dict[str, Position]:
            return await planner.starts(await planner.states(), LATEST)

        found = self._connection.call(starts)
        in_batch = {name: index for name, index in self._options.starting_in_batch.items() if name in found}
        return Offsets(self._cluster, found, in_batch=in_batch).to_dict()

    def freeze(self) -> None:
        """Leave messages that come from now on, and new topics, to the next run."""
        states = self._connection.call(self._connection.planner.remaining_states)
        self._frozen = {name: state.latest for name, state in states.items()}

    def reported(self) -> dict[str, Any]:
        """Return the latest known ends of the topics."""
        return Offsets(self._cluster, self._latest).to_dict()

    def end(self, start: dict[str, Any] | None, limits: Limits) -> dict[str, Any]:
        """Return the end of the next micro-batch.

        Args:
            start: its start; None if Spark does not tell it, which is the last end then, or unknown after a restart.
            limits: the limits of the micro-batch.

        Raises:
            SourceError: a topic, or the cluster, cannot be read.
            OffsetError: the start is not of this source and cluster.
        """
        self._move_hold()  # Spark commits no more while nothing comes, and the last move may have been put off
        before = (
            (self._last or Offsets(self._cluster, {})) if start is None else Offsets.from_dict(start, self._cluster)
        )
        # A run with availableNow ends when nothing is left, so it waits. A stream tries again with its next trigger.
        wait = self._frozen is not None or not before.topics
        try:
            ends = self._connection.call(lambda: self._ends(before, limits, wait=wait), retry=wait)
        except (MetadataError, BookKeeperError, OwnerUnavailableError) as error:
            self._skip_unavailable("", error)
            return before.to_dict()
        self._outages.ended([""])
        unread = {name: index for name, index in before.in_batch.items() if ends.get(name) == before.topics[name]}
        self._last = Offsets(self._cluster, ends, self._following(ends, before), unread)
        return self._last.to_dict()

    def _following(self, ends: Mapping[str, Position], start: Offsets) -> dict[str, int]:
        """Return the ledger after each closed one that was read to its end with this micro-batch."""
        states = self._states
        found: dict[str, int | None] = {}
        for name, end in ends.items():
            if name in self._replaced:
                found[name] = self._replaced[name]
                continue
            state = states.get(name)
            following = state.following if state is not None and end == state.latest else None
            stays = end == start.topics.get(name)
            found[name] = start.following.get(name) if stays and following is None else following
        return {name: ledger for name, ledger in found.items() if ledger is not None}

    async def _ends(self, start: Offsets, limits: Limits, *, wait: bool) -> dict[str, Position]:
        planner, frozen, before = self._connection.planner, self._frozen, start.topics
        states, failed = await self._reachable(frozen, before)
        refused = not states and not any(map(is_transient, failed.values()))
        if failed and (wait or refused):
            raise min(failed.values(), key=is_transient)
        for name, error in failed.items():
            self._skip_unavailable(name, error)
        self._outages.ended(states)
        self._outages.keep(["", *states, *failed])
        ends = {name: state.latest for name, state in states.items()}
        self._latest = ends
        if frozen is not None:
            ends = {name: min(end, frozen[name]) for name, end in ends.items()}
        # A topic that cannot be read now stays where it is.
        held = {name: before[name] for name in failed if name in before}
        held |= self._replacements(start, states, ends)
        states = _followed(states, before, start.following)
        if frozen is None and before and self._waiting.more(before, states, ends, time.monotonic()):
            held = {**before, **held}
        admitted = {**planner.admit(before, states, ends, limits), **held}
        self._states = states
        return admitted

    async def _reachable(
        self, names: Iterable[str] | None, before: Mapping[str, Position]
    ) -> tuple[dict[str, TopicState], dict[str, BookKeeperError | OwnerUnavailableError]]:
        """See Planner.reachable_states; topics whose messages cannot be held back are not read either."""
        states, unreadable = await self._connection.planner.reachable_states(names, before)
        failed: dict[str, BookKeeperError | OwnerUnavailableError] = {**unreadable}
        if self._hold is not None:
            failed |= await self._hold.ensure(
                {name: before.get(name, state.earliest) for name, state in states.items()}
            )
        return {name: state for name, state in states.items() if name not in failed}, failed

    def _replacements(
        self, start: Offsets, states: Mapping[str, TopicState], ends: Mapping[str, Position]
    ) -> dict[str, Position]:
        """Return the starts of topics whose last ledger was replaced.

        They stay for one micro-batch, which records the new ledger.
        """
        found = {}
        self._replaced = {}
        for name, position in start.topics.items():
            following = start.following.get(name)
            if name in states and name in self._states and states[name].gap(position, ends[name], following):
                ledger = states[name].replacement(self._states[name], position, following)
                if ledger is not None:
                    self._replaced[name], found[name] = ledger, position
        return found

    def _skip_unavailable(self, name: str, error: Exception) -> None:
        """Go on without a topic that cannot be read, or without any (no name), for the time of the option `retryTimeout`.

        Raises:
            SourceError: this time is over.
        """
        now, what = time.monotonic(), name or "all topics"
        if self._outages.failed(name, now) is None:
            raise SourceError(
                f"{name or 'the cluster'} could not be read for {self._options.retry_s:g} s: {error}"
            ) from error
        if self._outages.to_log(name, now):
            log.warning("%s cannot be read now, the stream continues without it: %s", what, error)

    def tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[TaskPlan]:
        """Return the tasks between two offsets."""
        begin = Offsets.from_dict(start, self._cluster)
        ends = Offsets.from_dict(end, self._cluster).topics
        # Spark requests the tasks right after the end, so the topics need not be queried twice.
        known = self._states if self._last is not None and self._last.topics == ends else {}
        self._connection.planner.check_topics(begin.topics, ends)
        return self._connection.call(lambda: self._between(begin, ends, known))

    async def _between(
        self, begin: Offsets, ends: Mapping[str, Position], known: Mapping[str, TopicState]
    ) -> list[TaskPlan]:
        planner = self._connection.planner
        moved = [name for name, end in ends.items() if begin.topics.get(name) != end]

        async def ranges() -> tuple[Any, ...]:
            nonlocal known
            found, known = known or await planner.states(moved), {}
            states = _followed(found, begin.topics, begin.following)
            return states, begin.topics, {name: ends[name] for name in moved}, begin.following, begin.in_batch

        return await planner.tasks_of(ranges)


def _followed(
    states: Mapping[str, TopicState], starts: Mapping[str, Position], following: Mapping[str, int]
) -> dict[str, TopicState]:
    """See TopicState.followed_from; a topic without a start is read from its beginning."""
    return {
        name: state.followed_from(starts[name], following.get(name)) if name in starts else state
        for name, state in states.items()
    }


async def _last_move(hold: RetentionSubscription, ends: Mapping[str, Position]) -> None:
    try:
        await hold.move(ends, now=True)
    finally:
        await hold.close()
