"""Views of a topic's subscriptions: at the owner, or at a pool that keeps its cursors itself."""

from __future__ import annotations

import asyncio
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from readonly_engine.broker.cursors.partitions import GUARD_PREFIX
from readonly_engine.broker.tail.budget import SUBSCRIPTION_PREFIX
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.subscriptions.cursors import pool_cursors
from readonly_engine.subscriptions.output import fields_of
from readonly_engine.subscriptions.settings import ToolConfig
from readonly_engine.tool.errors import ToolError

from devstack.pulsar.admin import AdminError
from longtests.compat.process import OperationError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from devstack.pool import Pool
    from devstack.pulsar.admin import MessageId, PulsarAdmin
    from devstack.pulsar.status import Endpoints

_WAIT_S: Final = 60.0


class View(Protocol):
    """Reads and changes the subscriptions of a topic as an administrator."""

    def names(self, topic: str) -> list[str]:
        """Return the names of the applications' subscriptions; none of a topic that does not exist."""

    def stats(self, topic: str, subscription: str) -> dict[str, Any]:
        """Return statistics in Pulsar's form; raise KeyError without this subscription."""

    def acked_ranges(self, topic: str, subscription: str) -> str:
        """Return the acked ranges after the mark-delete position, as Pulsar's internal statistics show them."""

    def reset(self, topic: str, subscription: str, position: MessageId) -> None:
        """Move a cursor, so that a message is the next one."""

    def skip_all(self, topic: str, subscription: str) -> None:
        """Move a cursor to the end of the topic."""

    def delete(self, topic: str, subscription: str) -> None:
        """Delete a subscription, also one that has consumers."""


class OwnerView:
    """The owner's subscriptions.

    Args:
        admin: the admin API.
    """

    def __init__(self, admin: PulsarAdmin) -> None:
        self._admin = admin

    def names(self, topic: str) -> list[str]:
        """See View."""
        try:
            found = self._admin.subscriptions(topic)
        except AdminError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return []
        return [name for name in found if not name.startswith((SUBSCRIPTION_PREFIX, GUARD_PREFIX))]

    def stats(self, topic: str, subscription: str) -> dict[str, Any]:
        """See View."""
        found: dict[str, Any] = self._admin.stats(topic)["subscriptions"][subscription]
        return found

    def acked_ranges(self, topic: str, subscription: str) -> str:
        """See View."""
        return str(self._admin.internal_stats(topic)["cursors"][subscription]["individuallyDeletedMessages"])

    def reset(self, topic: str, subscription: str, position: MessageId) -> None:
        """See View."""
        self._admin.reset_cursor(topic, subscription, position)

    def skip_all(self, topic: str, subscription: str) -> None:
        """See View."""
        self._admin.skip_all(topic, subscription)

    def delete(self, topic: str, subscription: str) -> None:
        """See View."""
        self._admin.delete_subscription(topic, subscription, force=True)


class LocalView:
    """The subscriptions of a pool with local cursors: its brokers' statistics, and the cursors that they have stored.

    Readers have non-durable subscriptions, which are at the owner.

    Args:
        pool: the pool.
        endpoints: the source cluster.
        admin: the admin API.
        tool: runs a command of `pulsar-readonly subscriptions`; raises OperationError.
    """

    def __init__(self, pool: Pool, endpoints: Endpoints, admin: PulsarAdmin, tool: Tool) -> None:
        self._pool = pool
        self._owner = OwnerView(admin)
        self._tool = tool
        self._config = ToolConfig(service_url=endpoints.writer_url, admin_url=endpoints.admin_url, pool=pool.name)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def names(self, topic: str) -> list[str]:
        """See View."""
        return sorted({*self._stored(topic), *self._owner.names(topic)})

    def stats(self, topic: str, subscription: str) -> dict[str, Any]:
        """See View."""
        stored, served = self._stored(topic).get(subscription), self._served(topic).get(subscription)
        if stored is None:
            return self._owner.stats(topic, subscription)  # a Reader's
        return {"consumers": [], **stored, **(served or {}), "msgBacklog": stored["msgBacklog"]}

    def acked_ranges(self, topic: str, subscription: str) -> str:
        """See View."""
        return str(self._stored(topic)[subscription]["individuallyDeletedMessages"])

    def reset(self, topic: str, subscription: str, position: MessageId) -> None:
        """See View."""
        self._tool("seek", topic, subscription, "--to", f"{position.ledger}:{position.entry}", "--force")

    def skip_all(self, topic: str, subscription: str) -> None:
        """See View."""
        self._tool("seek", topic, subscription, "--to", "latest")

    def delete(self, topic: str, subscription: str) -> None:
        """See View."""
        self._tool("delete", topic, subscription, "--force")

    def close(self) -> None:
        """Stop the thread of the connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _served(self, topic: str) -> dict[str, dict[str, Any]]:
        """Return the statistics of subscriptions that have consumers, of the broker that serves them."""
        found = {}
        for broker in self._pool.brokers:
            if broker.process.poll() is None:
                stats = broker.stats()["topics"].get(topic, {"subscriptions": {}})
                found |= {name: one for name, one in stats["subscriptions"].items() if "servedBy" not in one}
        return found

    def _stored(self, topic: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self._run(self._read(topic))
        return found

    async def _read(self, name: str) -> dict[str, dict[str, Any]]:
        topic = parse_topic_name(name)
        async with pool_cursors(self._config) as cursors:
            if not await cursors.stored_in(topic):
                return {}
            listed = await cursors.list([topic])
            entries = await cursors.entries(listed)
            return {one.name: fields_of(one, entries[topic]) for one in listed[topic]}

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)
        except ToolError as error:
            raise OperationError("Other", "ToolError", str(error)) from error


class Tool(Protocol):
    """`pulsar-readonly subscriptions`."""

    def __call__(self, *words: str) -> None:
        """Run a command; raise OperationError if it fails."""
