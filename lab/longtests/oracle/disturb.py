"""Disturbances of the cluster during writes: unloads, restarts of brokers and bookies, compactions."""

from __future__ import annotations

import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from devstack.pulsar.admin import AdminError
from devstack.pulsar.cluster import PulsarCluster
from longtests.oracle.stack import with_broker_metadata

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from longtests.oracle.workload import TopicPlan

_UNLOADED_SHARE: Final = 5
"""One in this many topics is unloaded in each round."""

_RETRY_S: Final = 0.5
_PATIENCE_S: Final = 60.0
"""Time of retries after a server error of the owner, because a new bookie is not writable at once."""


class Disturbances:
    """Disturbs a cluster in every round.

    Args:
        stack: the cluster.
        rng: selects topics.
        topics: topics to unload and compact.
        restarts: whether servers are restarted too.
    """

    def __init__(self, stack: PulsarCluster, rng: random.Random, topics: list[TopicPlan], *, restarts: bool) -> None:
        self.stack = stack
        self._topics = topics
        self._rng = rng
        self.done: list[str] = []
        bookies = list(range(stack.spec.bookies))
        rng.shuffle(bookies)
        first, second = bookies[0], bookies[-1]
        self._turns: list[list[tuple[str, Callable[[], object]]]] = [
            [],
            [
                (f"kill bookie {first}", lambda: self.stack.kill_bookie(first)),
                (f"start bookie {first}", lambda: self.stack.start_bookie(first)),
            ],
            [("restart broker with metadata of its own", self._restart_with_broker_metadata)],
            [
                ("kill broker", lambda: self.stack.kill_broker(0)),
                ("start broker", lambda: self.stack.start_broker(0)),
            ],
            [
                (f"stop bookie {second}", lambda: self.stack.stop_bookie(second)),
                (f"start bookie {second}", lambda: self.stack.start_bookie(second)),
            ],
        ]
        if not restarts:
            self._turns = [[] for _ in self._turns]

    def disturb(self, turn: int) -> None:
        """Do the disturbances of a round."""
        for name, act in self._turns[turn % len(self._turns)]:
            act()
            self.done.append(name)
        admin = self.stack.admin()
        for topic in self._rng.sample(self._topics, max(1, len(self._topics) // _UNLOADED_SHARE)):
            for log in topic.logs:
                self._ask(f"unload {log}", partial(admin.unload, log))
        for topic in self._topics:
            if topic.compacted:
                self._ask(f"compact {topic.name}", partial(admin.compact, topic.name))

    def _restart_with_broker_metadata(self) -> None:
        self.stack.stop_broker(0)
        self.stack = PulsarCluster(with_broker_metadata(self.stack.spec), self.stack.state.root)
        self.stack.up()

    def _ask(self, what: str, act: Callable[[], object]) -> None:
        """Call the admin API; skip a topic that does not exist yet, or whose compaction is still running."""
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            try:
                act()
            except AdminError as error:
                if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                    return
                if error.status < HTTPStatus.INTERNAL_SERVER_ERROR or time.monotonic() > give_up:
                    raise
                time.sleep(_RETRY_S)
            else:
                self.done.append(what)
                return
