"""`kubectl readonly top`: figures of all brokers of a pool, on the screen of `pulsar-readonly top`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from readonly_engine.tool.errors import ToolError
from readonly_engine.top.observed import Observed

from readonly_operator.kubectl.errors import PluginError
from readonly_operator.kubectl.snapshot import broker_view

if TYPE_CHECKING:
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kubectl.reading import Reader


class PoolStatusReader:
    """Reads the figures of a pool's brokers. Each request lists the pods again, because brokers come and go.

    Args:
        reader: reads the namespace.
        key: the pool.
    """

    def __init__(self, reader: Reader, key: PoolKey) -> None:
        self._reader = reader
        self._key = key
        self._known: list[str] = []

    async def read(self) -> list[Observed]:
        """Return a result for each process of each broker. After a first answer, a failure is the reason of each.

        Raises:
            ToolError: at first, the user lacks a right, or the API server does not answer.
        """
        try:
            return await asyncio.to_thread(self._read)
        except asyncio.CancelledError:
            self._reader.cancel()  # the end of the process waits for the thread
            raise

    def _read(self) -> list[Observed]:
        try:
            pods = self._reader.brokers(self._key)
            found = self._reader.observe([broker_view(pod) for pod in pods])
        except PluginError as error:
            if not self._known:
                raise ToolError(str(error)) from error
            return [Observed(name, error=str(error)) for name in self._known]
        found = found or [Observed(str(self._key), error="the pool has no brokers")]
        self._known = [one.url for one in found]
        return found
