"""Requests of local cursors to the source cluster's admin API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from readonly_operator.cluster.fetch import FetchError, send
from readonly_operator.cluster.local_cursors.names import POOL_PROPERTY, cursor_topic, is_guard, rest_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.fetch import Credentials

REQUEST_SECONDS: Final = 10.0
"""Deadline of one request. The first one about a topic makes its owner load it."""

DELETE_SECONDS: Final = 60.0
"""Deadline of the deletion of a topic with all its partitions."""

MAX_LIST_BYTES: Final = 64 * 1024 * 1024
"""Largest list of the topics of a namespace: some 600,000 names."""

FORBIDDEN: Final = frozenset({401, 403})
NOT_FOUND: Final = 404


class CursorTopic(NamedTuple):
    """A topic with cursors.

    Attributes:
        partitions: number of its partitions; 0 if there is no such topic.
        pool: identity of the pool that its property names; empty for none.
    """

    partitions: int = 0
    pool: str = ""


class CursorAdmin:
    """The admin API of one source cluster. Thread-safe.

    Args:
        source: the source cluster.
        credentials: for its admin API.
    """

    def __init__(self, source: Source, credentials: Credentials) -> None:
        self._urls = source.admin_urls
        self._credentials = credentials

    def namespaces(self) -> list[str]:
        """Return all namespaces as TENANT/NAMESPACE.

        Raises:
            FetchError: the admin API does not answer, or refuses; the list of tenants needs a super-user.
        """
        tenants = _texts(self._get("tenants"))
        return [name for tenant in tenants for name in _texts(self._get(f"namespaces/{quote(tenant, safe='')}"))]

    def policies(self, namespace: str) -> Mapping[str, Any]:
        """Return the policies of a namespace (TENANT/NAMESPACE); none if there is no such namespace.

        Raises:
            FetchError: the admin API does not answer, or refuses.
        """
        found = self._get(f"namespaces/{_path(namespace)}")
        return found if isinstance(found, dict) else {}

    def topics(self, namespace: str) -> list[str]:
        """Return the full names of a namespace's persistent topics, each partition for itself.

        Raises:
            FetchError: the admin API does not answer, or refuses.
        """
        return _texts(self._get(f"persistent/{_path(namespace)}"))

    def cursor_topic(self, namespace: str, identity: str) -> CursorTopic:
        """Return the topic with a pool's cursors of a namespace, which need not exist.

        Raises:
            FetchError: the admin API does not answer, or refuses.
        """
        found = self._get(f"{rest_path(cursor_topic(namespace, identity))}/partitions")
        if not isinstance(found, dict):
            return CursorTopic()
        properties = found.get("properties")
        pool = properties.get(POOL_PROPERTY, "") if isinstance(properties, dict) else ""
        return CursorTopic(int(found.get("partitions") or 0), str(pool))

    def guards(self, topic: str, identity: str) -> list[str]:
        """Return the names of a pool's guards at a topic, or at a partition; none if there is no such topic.

        Raises:
            FetchError: the admin API does not answer, or refuses.
        """
        subscriptions = _texts(self._get(f"{rest_path(topic)}/subscriptions"))
        return [name for name in subscriptions if is_guard(name, identity)]

    def delete_guard(self, topic: str, guard: str) -> None:
        """Delete a guard; a missing one is no error.

        Raises:
            FetchError: the admin API does not answer, or refuses.
        """
        self._send("DELETE", f"{rest_path(topic)}/subscription/{quote(guard, safe='')}", REQUEST_SECONDS)

    def delete_cursor_topic(self, namespace: str, identity: str) -> None:
        """Delete the topic with a pool's cursors of a namespace; a missing one is no error.

        Raises:
            FetchError: the admin API does not answer, or refuses, as while a broker of the pool still writes to the topic.
        """
        self._send("DELETE", f"{rest_path(cursor_topic(namespace, identity))}/partitions", DELETE_SECONDS)

    def _get(self, path: str) -> Any:
        """Return the JSON at a path; None if there is nothing."""
        body = self._send("GET", path, REQUEST_SECONDS)
        if body is None:
            return None
        try:
            return json.loads(body)
        except ValueError:
            raise FetchError("the answer is not JSON") from None

    def _send(self, method: str, path: str, timeout: float) -> bytes | None:
        """Return the answer of the first host that answers, None for 404; `timeout` seconds for each host."""
        problem = FetchError("no host")
        for url in self._urls:
            try:
                return send(method, f"{url}/admin/v2/{path}", None, timeout, self._credentials, MAX_LIST_BYTES)
            except FetchError as error:
                if error.status == NOT_FOUND:
                    return None
                problem = error
                if 400 <= error.status < 500:
                    break
        raise problem


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _path(namespace: str) -> str:
    return "/".join(quote(part, safe="") for part in namespace.split("/"))
