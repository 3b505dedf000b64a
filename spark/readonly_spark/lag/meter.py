"""Measures on the cluster what of its topics a query has not read yet, and how old that is."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import EARLIEST

from readonly_spark.closing import Closeable
from readonly_spark.errors import SourceError
from readonly_spark.lag.topic_lag import TopicLag
from readonly_spark.loop_thread import LoopThread
from readonly_spark.message_ids import parse_message_id
from readonly_spark.options import parse_options
from readonly_spark.plan.catalog import Catalog
from readonly_spark.plan.gather import gather_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_spark.plan.topic_state import TopicState

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 60.0


class LagMeter(Closeable):
    """Query the cluster for the ends of the topics.

    Args:
        source: the options of the source.
        option: the option that named the cluster, for errors.

    Attributes:
        measured_at: when the lag was measured last, in seconds since the epoch; 0 before that.

    Raises:
        SourceError: the cluster does not answer, or a topic does not exist.
    """

    def __init__(self, source: Mapping[str, str], option: str = "metadataStoreUrl") -> None:
        self._option = option
        self.measured_at = 0.0
        self._loop = LoopThread()
        self._catalog = Catalog(parse_options(source, streaming=True))
        self._known: list[TopicLag] = []
        try:
            self._loop.call(self._catalog.open(), TIMEOUT_S)
            self._loop.call(self._catalog.selection.remaining(), TIMEOUT_S)
        except (MetadataError, TimeoutError) as error:
            self._loop.stop()
            raise SourceError(f"{self._option}: {error}") from None
        except BaseException:
            self._loop.stop()
            raise

    def close(self) -> None:
        """Close the connections."""
        try:
            self._loop.call(self._catalog.close(), TIMEOUT_S)
        finally:
            self._loop.stop()

    def cluster(self) -> str:
        """Return the id of the BookKeeper cluster; empty if it has none.

        Raises:
            SourceError: the cluster does not answer.
        """
        try:
            return self._loop.call(self._catalog.cluster_id(), TIMEOUT_S)
        except (MetadataError, TimeoutError) as error:
            raise SourceError(f"{self._option}: {error}") from None

    def measure(self, ends: Mapping[str, str]) -> list[TopicLag]:
        """Return the lag of each topic.

        If the cluster does not answer, return the previous result: the query itself reports the error.

        Args:
            ends: the next entry of each topic in the query; a missing topic is not started yet.
        """
        try:
            self._known = self._loop.call(self._measured(ends), TIMEOUT_S)
            self.measured_at = time.time()
        except (MetadataError, BookKeeperError, SourceError, TimeoutError) as error:
            log.warning("cannot measure the lag: %s", error)
        return self._known

    async def _measured(self, ends: Mapping[str, str]) -> list[TopicLag]:
        states = await self._catalog.states(await self._catalog.selection.remaining(), sample=True)
        return list(await gather_bounded(lambda name: self._lag(states[name], ends.get(name)), sorted(states)))

    async def _lag(self, state: TopicState, end: str | None) -> TopicLag:
        start = EARLIEST if end is None else parse_message_id(end)
        state = state.followed_from(start)
        ranges = list(state.entry_ranges(start, state.latest))
        if not ranges:
            return TopicLag(state.name, 0, 0.0)
        first = ranges[0]
        published = await self._catalog.samples.publish_time(parse_topic_name(state.name), first.ledger, first.first)
        return TopicLag(
            state.name,
            sum(one.entries for one in ranges),
            sum(one.bytes for one in ranges),
            sum(one.messages for one in ranges),
            0.0 if published is None else max(time.time() - published / 1000, 0.0),
        )
