"""Keepers of cursors: the owners, or the pool itself."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Final, Protocol

import pulsar

from devstack.errors import DevstackError
from devstack.pulsar.admin import AdminError
from longtests.chaos import cursors
from longtests.chaos.workload import READER, SUBSCRIPTIONS, TOPICS
from tests.support.service_url import service_url
from tests.support.subscriptions_tool import COMMAND, connections_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.pulsar.admin import MessageId, PulsarAdmin
    from longtests.chaos.stack import ChaosStack
    from longtests.chaos.workload import Subscription, Topic
    from longtests.churn.history import History

POOL: Final = "chaos"
LOCAL_OPTIONS: Final = ("--cursors", "local", "--cursor-partitions", "4")
_TOOL_S: Final = 30.0
_CREATE_S: Final = 60
_FULL: Final = {topic.short: topic.full for topic in TOPICS}


class Keeper(Protocol):
    """Knows and changes subscriptions, wherever their cursors are."""

    def create(self) -> None:
        """Create all subscriptions before the first message; the read-only brokers run."""

    def connected(self) -> set[str]:
        """Return the names of the subscriptions that have consumers."""

    def behind(self, *, readable: bool) -> list[str]:
        """Return the durable subscriptions with a backlog.

        Args:
            readable: whether to count only messages that the owner lets consumers read. A message that is stored after its
                transaction was committed reopens it without an end (TopicTransactionBuffer.handleTransactionMessage).
        """

    def resettable(self) -> list[Subscription]:
        """Return the subscriptions whose cursors can be reset."""

    def reset(self, topic: str, subscription: str, place: MessageId) -> None:
        """Reset a cursor, so that a message is the next one.

        Raises:
            AdminError: it may not have been reset.
            DevstackError: the same.
        """

    async def watch(self, history: History) -> None:
        """Note each cursor that goes back by itself, until cancelled."""


class OwnerKeeper:
    """The owners keep the cursors.

    Args:
        admin: returns the admin API of a healthy owner.
    """

    def __init__(self, admin: Callable[[], PulsarAdmin]) -> None:
        self._admin = admin

    def create(self) -> None:
        """See Keeper."""
        for subscription in SUBSCRIPTIONS:
            if subscription.type != READER:
                self._admin().create_subscription(_FULL[subscription.topic], subscription.short)

    def connected(self) -> set[str]:
        """See Keeper."""
        found = set()
        for topic in TOPICS:
            try:
                stats = self._admin().stats(topic.full)
            except AdminError:
                continue
            found |= {f"{topic.short}/{name}" for name, one in stats["subscriptions"].items() if one["consumers"]}
        return found

    def behind(self, *, readable: bool) -> list[str]:
        """See Keeper."""
        behind = []
        for topic in TOPICS:
            try:
                stats = self._admin().stats(topic.full)
            except AdminError as error:
                behind.append(f"{topic.short}: {error}")
                continue
            for name, subscription in stats["subscriptions"].items():
                backlog = int(subscription["msgBacklog"])
                # Acks of Readers do not matter; the check covers their deliveries.
                if backlog and subscription["isDurable"] and not (readable and self._all_acked(topic, name)):
                    behind.append(f"{topic.short}/{name}: {backlog} not acked")
        return behind

    def _all_acked(self, topic: Topic, subscription: str) -> bool:
        """Return whether a subscription has acked all messages that the owner lets consumers read."""
        try:
            limit = str(self._admin().transaction_buffer_stats(topic.full)["maxReadPosition"])
            acked = str(self._admin().internal_stats(topic.full)["cursors"][subscription]["markDeletePosition"])
        except (AdminError, KeyError):
            return False
        return [int(part) for part in acked.split(":")] >= [int(part) for part in limit.split(":")]

    def resettable(self) -> list[Subscription]:
        """See Keeper."""
        return [one for one in SUBSCRIPTIONS if one.resets]

    def reset(self, topic: str, subscription: str, place: MessageId) -> None:
        """See Keeper."""
        self._admin().reset_cursor(topic, subscription, place)

    async def watch(self, history: History) -> None:
        """See Keeper."""
        await cursors.watch(_FULL, self._admin, history)


class LocalKeeper:
    """The pool keeps the cursors itself. It has the positions of a log, which cannot go back by itself.

    Args:
        admin: returns the admin API of a healthy owner.
        stack: has the read-only brokers.
    """

    def __init__(self, admin: Callable[[], PulsarAdmin], stack: ChaosStack) -> None:
        self._admin = admin
        self._stack = stack

    def create(self) -> None:
        """See Keeper."""
        client = pulsar.Client(
            service_url(self._stack.pool_urls),
            operation_timeout_seconds=_CREATE_S,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        try:
            for one in SUBSCRIPTIONS:
                if one.type != READER:
                    begin = pulsar.InitialPosition.Earliest
                    client.subscribe(_FULL[one.topic], one.short, initial_position=begin).close()
        finally:
            client.close()

    def connected(self) -> set[str]:
        """See Keeper."""
        return set(self._backlogs())

    def behind(self, *, readable: bool) -> list[str]:
        """See Keeper. Brokers count readable messages only."""
        del readable
        backlogs = self._backlogs()
        return [
            f"{one.name}: {backlogs.get(one.name, 'unknown number of messages')} not acked"
            for one in SUBSCRIPTIONS
            if one.type != READER and backlogs.get(one.name) != 0
        ]

    def _backlogs(self) -> dict[str, int]:
        """Return the backlogs of the subscriptions with consumers, at the brokers that serve them."""
        found = {}
        for broker in list(self._stack.read_only.values()):
            try:
                topics = broker.stats()["topics"]
            except OSError:
                continue
            for topic, stats in topics.items():
                for name, one in stats["subscriptions"].items():
                    # Of a split subscription, the holder of the cursor coordinates, perhaps without consumers of its own.
                    serves = one["split"]["state"] == "coordinating" if "split" in one else one["consumers"]
                    if serves and "msgBacklog" in one:
                        found[f"{topic.rpartition('/')[2]}/{name}"] = int(one["msgBacklog"])
        return found

    def resettable(self) -> list[Subscription]:
        """See Keeper. The command joins the consumers, and cannot join an Exclusive one."""
        return [one for one in SUBSCRIPTIONS if one.resets and one.type != "Exclusive"]

    def reset(self, topic: str, subscription: str, place: MessageId) -> None:
        """See Keeper."""
        seek = ("seek", topic, subscription, "--to", f"{place.ledger}:{place.entry}", "--force")
        connections = connections_of(self._stack.endpoints, POOL, service_url(self._stack.pool_urls))
        try:
            done = subprocess.run(
                [*COMMAND, *seek, *connections], capture_output=True, text=True, timeout=_TOOL_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DevstackError(f"no end of the seek after {_TOOL_S:g} s") from error
        if done.returncode:
            raise DevstackError(done.stderr.strip())

    async def watch(self, history: History) -> None:
        """See Keeper."""
        del history
        await asyncio.Event().wait()
