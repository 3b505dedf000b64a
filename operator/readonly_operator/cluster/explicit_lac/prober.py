"""Trying explicit LAC for real, now and then: on the topic that a pool names, else by the writable brokers' health checks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool, Source
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.cluster.background import Desk, guarded
from readonly_operator.cluster.explicit_lac.probe import Trial, Tried
from readonly_operator.cluster.fetch import FetchError
from readonly_operator.kube.kinds import POD
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.pods import is_ready

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from readonly_operator.cluster.fetch import Access
    from readonly_operator.cluster.source import SourceMonitor
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

EVERY_SECONDS = 3600.0
RETRY_SECONDS = 60.0
SOON_SECONDS = 10.0
"""Where it could not be tried on a topic: perhaps brokers have not taken the binding up yet."""

Asker = PoolKey | Source
"""Who wants to know: a pool that names a topic, or all those together that name none and have the writable cluster in common."""


class ProbeDesk(Desk[Asker, Trial, Tried | None]):
    """Tries explicit LAC for each pool that has a broker which can ask bookies.

    Args:
        store: knows the pools and their brokers.
        sources: what writable brokers say they run with.
        changed: called with each pool whose result is new.
        accesses: what to show to the admin API of a source.
        stopped: set when the operator ends, which waits for no topic.
    """

    def __init__(
        self,
        store: Store,
        sources: SourceMonitor,
        changed: Callable[[PoolKey], None],
        accesses: Callable[[Source], Access],
        stopped: threading.Event,
    ) -> None:
        super().__init__(changed, None, stopped)
        self._store = store
        self._sources = sources
        self._accesses = accesses
        self._ended = stopped
        self._together: dict[Source, list[PoolKey]] = {}
        self._common: dict[Source, Tried] = {}

    def _subjects(self) -> dict[Asker, Trial | None]:
        found: dict[Asker, Trial | None] = {}
        together: dict[Source, list[PoolKey]] = {}
        for body in self._store.pools():
            with guarded(body["metadata"]["name"]):
                pool = _asking(body)
                if pool is None:
                    continue
                topic, source = pool.explicit_lac.probe_topic, pool.source
                if topic:
                    found[pool.key] = self._trial(topic, source, self._address(pool.key))
                else:
                    together.setdefault(source, []).append(pool.key)
        self._together = together
        self._common = {source: tried for source, tried in self._common.items() if source in together}
        for source in together:
            found[source] = self._trial("", source, self._address_of(source))
        return found

    def _trial(self, topic: str, source: Source, address: str) -> Trial | None:
        """What to try; None while nobody can be asked, or where verifying says all there is to say."""
        report = self._sources.report(source)
        intervals = () if report is None else report.intervals_ms
        if not address or not intervals or not all(interval > 0 for _, interval in intervals):
            return None
        return Trial(topic, source, intervals)

    def _work(self, item: Asker, subject: Trial) -> tuple[dict[PoolKey, Tried | None], float]:
        address = self._address(item) if isinstance(item, PoolKey) else self._address_of(item)
        try:
            tried = subject.run(address, self._accesses(subject.source), self._ended)
        except FetchError as error:
            tried = Tried(None, f"it could not be tried on {subject.where}: {error}")
        if isinstance(item, PoolKey):
            if tried != self.report(item):
                logger.info("%s: explicit LAC: %s", item, tried.text)
            return {item: tried}, _AGAIN[tried.seen]
        if tried != self._common.get(item):
            logger.info("%s: explicit LAC: %s", item.admin_url, tried.text)
        self._common[item] = tried
        return {}, EVERY_SECONDS if tried.seen else RETRY_SECONDS

    def _aside(self) -> dict[PoolKey, Tried | None]:
        return {
            key: self._common[source]
            for source, keys in self._together.items()
            if source in self._common
            for key in keys
        }

    def _address_of(self, source: Source) -> str:
        """Of a broker of one of the pools that have this writable cluster in common; empty for none."""
        return next(filter(None, map(self._address, self._together.get(source, ()))), "")

    def _address(self, key: PoolKey) -> str:
        ready = [pod for pod in self._store.of_pool(POD, key) if is_ready(pod)]
        address = next((str(ip) for pod in ready if (ip := (pod.get("status") or {}).get("podIP"))), "")
        return f"[{address}]" if ":" in address else address


_AGAIN = {True: EVERY_SECONDS, False: RETRY_SECONDS, None: SOON_SECONDS}


def _asking(body: dict[str, Any]) -> Pool | None:
    if is_paused(body) or "deletionTimestamp" in body["metadata"]:
        return None
    try:
        return Pool.load(body)
    except ApiSpecError:
        return None
