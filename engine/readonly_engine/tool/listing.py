"""`topic ls`: namespaces, or the topics of one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from readonly_engine.tool.errors import ToolError

if TYPE_CHECKING:
    from readonly_engine.tool.storage import Storage


async def list_namespaces(storage: Storage) -> list[str]:
    """Return a line for each namespace: its name, and its number of topics. A partitioned topic counts once.

    Raises:
        MetadataError: the metadata store does not answer.
    """
    lines = []
    for namespace in await storage.cluster.namespaces():
        count = len(await _names(storage, namespace))
        lines.append(f"{namespace}  {count} topic{'' if count == 1 else 's'}")
    return lines


async def list_topics(storage: Storage, namespace: str) -> list[str]:
    """Return a line for each topic: its full name, and its number of partitions.

    Raises:
        ToolError: there is no such namespace.
        MetadataError: the metadata store does not answer.
    """
    known = await storage.cluster.namespaces()
    if namespace not in known:
        near = difflib.get_close_matches(namespace, known) or known
        raise ToolError(f"there is no namespace {namespace}; existing: {', '.join(near) or 'none'}")
    names = await _names(storage, namespace)
    return [f"{name}  {count} partitions" if count else name for name, count in sorted(names.items())]


async def _names(storage: Storage, namespace: str) -> dict[str, int]:
    """Return full names of topics, with their numbers of partitions; 0 for a topic that is not partitioned."""
    tenant, _, local = namespace.partition("/")
    partitioned = await storage.cluster.partitioned_topics(tenant, local)
    plain = [topic for topic in await storage.cluster.topics(tenant, local) if topic.base not in partitioned]
    return {str(topic): count for topic, count in partitioned.items()} | {str(topic): 0 for topic in plain}
