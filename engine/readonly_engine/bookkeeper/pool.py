"""Connections to the bookies of a cluster, opened when they are needed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.connection import BookieConnection
from readonly_engine.bookkeeper.errors import BookieUnavailableError
from readonly_engine.metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RETRY_AFTER_S = 1.0
"""A bookie that could not be reached is not tried again before this: the other replicas are quicker."""


class BookiePool:
    """Two connections a bookie: reads do not queue behind the replies of long polls.

    Args:
        resolve: from a bookie id to its host and port; may raise MetadataError.
    """

    def __init__(self, resolve: Callable[[str], Awaitable[tuple[str, int]]]) -> None:
        self._resolve = resolve
        self._open: dict[tuple[str, bool], BookieConnection] = {}
        self._opening: dict[tuple[str, bool], asyncio.Task[BookieConnection]] = {}
        self._failed: dict[tuple[str, bool], tuple[float, BookieUnavailableError]] = {}

    def ready(self, bookie_id: str) -> BookieConnection | None:
        """The connection for reads, if it is open already."""
        connection = self._open.get((bookie_id, False))
        return None if connection is None or connection.closed else connection

    async def for_reads(self, bookie_id: str) -> BookieConnection:
        """The connection for reads.

        Raises:
            BookieUnavailableError: the bookie cannot be reached.
        """
        return await self._get((bookie_id, False))

    async def for_polls(self, bookie_id: str) -> BookieConnection:
        """The connection for long polls.

        Raises:
            BookieUnavailableError: the bookie cannot be reached.
        """
        return await self._get((bookie_id, True))

    def close(self) -> None:
        """Close every connection."""
        for task in self._opening.values():
            task.cancel()
        for connection in self._open.values():
            connection.close()

    async def _get(self, key: tuple[str, bool]) -> BookieConnection:
        connection = self._open.get(key)
        if connection is not None and not connection.closed:
            return connection
        now = asyncio.get_running_loop().time()
        failed = self._failed.get(key)
        if failed is not None and now - failed[0] < RETRY_AFTER_S:
            raise failed[1]
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.create_task(self._connect(key))
            opening.add_done_callback(lambda _: self._opening.pop(key, None))
        # One who gives up waiting must not cancel it for the others.
        return await asyncio.shield(opening)

    async def _connect(self, key: tuple[str, bool]) -> BookieConnection:
        bookie_id = key[0]
        try:
            try:
                host, port = await self._resolve(bookie_id)
            except MetadataError as error:
                raise BookieUnavailableError(str(error)) from error
            connection = await BookieConnection.open(bookie_id, host, port)
        except BookieUnavailableError as error:
            self._failed[key] = (asyncio.get_running_loop().time(), error)
            raise
        self._failed.pop(key, None)
        self._open[key] = connection
        return connection
