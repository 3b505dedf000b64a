"""Dry run of a write to ZooKeeper: a transaction that ZooKeeper checks, and never applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
)

from readonly_engine.metadata.errors import AccessDeniedError, MetadataUnavailableError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from readonly_engine.metadata.zookeeper_requests import ZooKeeperRequests

MAX_ATTEMPTS: Final = 3
"""Attempts, because another broker may create a parent between the search for missing parents and the transaction."""


async def dry_run(requests: ZooKeeperRequests, client: KazooClient, path: str) -> None:
    """Check that an ephemeral node may be created with its parents, changed and removed.

    The last operation of the transaction always fails, so ZooKeeper applies none of them. It checks the operations in order and
    reports the first that fails (PrepRequestProcessor). A missing right fails before that one.

    Args:
        requests: sends the requests.
        client: the session.
        path: the node, which must not exist.

    Raises:
        AccessDeniedError: a right is missing.
        MetadataUnavailableError: ZooKeeper did not answer in time, or failed otherwise.
    """
    for _ in range(MAX_ATTEMPTS):
        missing = await _missing(requests, client, path)
        request = client.transaction()
        for node in missing:
            request.create(node, b"", None, node == path)
        request.set_data(path, b"")
        request.delete(path)
        request.check(f"{path}/never", 0)  # it never exists
        rights = [*(("create", node) for node in missing), ("write", path), ("delete", path)]
        found = _first_failure(await requests.call(request.commit_async))
        if found is None:
            raise MetadataUnavailableError(f"ZooKeeper answered the dry run of {path} without its end")
        index, error = found
        if index == len(rights) and isinstance(error, NoNodeError | BadVersionError):
            return
        if isinstance(error, NoAuthError):
            raise await requests.denial(*rights[min(index, len(rights) - 1)])
        if isinstance(error, InvalidACLError):
            raise AccessDeniedError(
                "ZooKeeper does not know rights of logins: authProvider.sasl is missing in its configuration; add it, or set "
                "metadata-store-node-rights to open"
            )
        if not isinstance(error, NodeExistsError | NoNodeError):
            raise MetadataUnavailableError(f"ZooKeeper: the dry run of {path} failed: {type(error).__name__}")
    raise MetadataUnavailableError(f"ZooKeeper: the nodes above {path} change all the time; try again")


async def _missing(requests: ZooKeeperRequests, client: KazooClient, path: str) -> list[str]:
    """Return the node and its missing parents, the highest first."""
    missing = [path]
    while parent := missing[-1].rpartition("/")[0]:
        if await requests.call(client.exists_async, parent) is not None:
            break
        missing.append(parent)
    return missing[::-1]


def _first_failure(results: list[Any]) -> tuple[int, Exception] | None:
    """Return number and error of the operation that failed; those before it were rolled back."""
    for index, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError):
            return index, result
    return None
