"""The few questions to the writable cluster's admin API."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp

from readonly_engine.metadata.topic_name import encode_name
from readonly_engine.relay.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0

_RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


def parse_holes(text: str) -> list[tuple[Position, Position]]:
    """The ranges (lower, upper] in a cursor's individuallyDeletedMessages, as in `[(4:0..4:1],(4:5..4:9]]`."""
    return [(Position(int(a), int(b)), Position(int(c), int(d))) for a, b, c, d in _RANGE.findall(text)]


class AdminClient:
    """Asks the admin API.

    Args:
        url: `http://HOST:PORT` of any broker of the writable cluster; it redirects to the owner where needed.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def holes(self, topic: TopicName, subscription: str) -> list[tuple[Position, Position]]:
        """What of a subscription is acked behind its mark-delete position: ranges (lower, upper].

        The admin API is the only place that has the owner's present state of these; it costs the owner one internalStats.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        stats = await self._get(f"/admin/v2/{topic.rest_path}/internalStats")
        cursor = stats.get("cursors", {}).get(encode_name(subscription), {})
        return parse_holes(cursor.get("individuallyDeletedMessages", ""))

    async def configuration(self) -> dict[str, Any]:
        """The configuration that a broker of the writable cluster runs with, as texts by key.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with a configuration.
        """
        return await self._get("/admin/v2/brokers/configuration/runtime")

    async def policy(self, topic: TopicName, name: str) -> Any:
        """A policy as it is in force for a topic: the topic's own, else the namespace's, else the brokers'; None for none.

        Args:
            topic: a topic, no partition.
            name: as the last part of the policy's path, e.g. maxUnackedMessagesOnConsumer.

        Raises:
            OwnerUnavailableError: the admin API did not answer.
        """
        return await self._fetch(f"/admin/v2/{topic.rest_path}/{name}?applied=true")

    async def close(self) -> None:
        """End the connections."""
        if self._session is not None:
            await self._session.close()

    async def _get(self, path: str) -> dict[str, Any]:
        document = await self._fetch(path)
        if not isinstance(document, dict):
            raise OwnerUnavailableError(f"the admin API at {self._url} answered {path} with no object")
        return document

    async def _fetch(self, path: str) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        try:
            async with self._session.get(self._url + path) as response:
                if response.status == HTTPStatus.NO_CONTENT:
                    return None
                if response.status != HTTPStatus.OK:
                    raise OwnerUnavailableError(f"the admin API answered {response.status} to {path}")
                return await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise OwnerUnavailableError(
                f"the admin API at {self._url} did not answer: {error or 'no answer in time'}"
            ) from error
