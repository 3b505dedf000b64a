"""Load of topics from the statistics of the source cluster. It changes nothing there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import TopicName, parse_topic_name
from readonly_engine.owner.errors import AdminRefusedError, OwnerUnavailableError
from readonly_engine.sizing.statistics import addresses_of, load_of, sample
from readonly_engine.sizing.workload import Workload
from readonly_engine.tool.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.sizing.workload import TopicLoad

MAX_TOPICS: Final = 1_000
"""Topics and partitions whose statistics are requested; each stands for several if there are more."""

MAX_CONCURRENT: Final = 16
_SYSTEM_PREFIX: Final = "__"


async def read_workload(
    admin: AdminClient,
    topics: Sequence[TopicName],
    namespaces: Sequence[str],
    *,
    batch: float | None = None,
    connections: float | None = None,
) -> Workload:
    """Return the load of topics and namespaces.

    Statistics of a topic that does not exist could create it. So topics are looked for in the list of their namespace first.

    Args:
        admin: client of the admin API.
        topics: topics; partitioned ones count with all partitions.
        namespaces: TENANT/NAMESPACE; system topics are left out.
        batch: messages of one entry; None for those of the statistics.
        connections: client connections; None for one for each address of a consumer.

    Raises:
        ToolError: a topic does not exist, or a namespace has no topics.
        OwnerUnavailableError: the admin API did not answer, or refused.
    """
    names: set[str] = set()
    lists: dict[str, list[TopicName]] = {}
    for place in dict.fromkeys([*namespaces, *(f"{one.tenant}/{one.namespace}" for one in topics)]):
        lists[place] = await _list(admin, place)
    for place in namespaces:
        found = [str(one) for one in lists[place] if not one.local_name.startswith(_SYSTEM_PREFIX)]
        if not found:
            raise ToolError(f"--namespace: {place} has no persistent topics; name one that has")
        names.update(found)
    for topic in topics:
        found = [str(one) for one in lists[f"{topic.tenant}/{topic.namespace}"] if topic in {one, one.base}]
        if not found:
            raise ToolError(f"--topic: {topic} does not exist; name an existing persistent topic")
        names.update(found)
    picked, weight = sample(names, MAX_TOPICS)
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    filtered: dict[TopicName, asyncio.Task[bool | None]] = {}
    addresses: set[str] = set()

    async def load(text: str) -> TopicLoad | None:
        name = parse_topic_name(text)
        if name.base not in filtered:
            filtered[name.base] = asyncio.ensure_future(_has_filter(admin, name.base, slots))
        filters = await filtered[name.base]
        async with slots:
            stats = await admin.stats(name)
        if stats is None:  # deleted in the meantime
            return None
        addresses.update(addresses_of(stats))
        return load_of(text, stats, filters=bool(filters), batch=batch, topics=weight)

    tasks = [asyncio.ensure_future(load(text)) for text in picked]
    try:
        loads = await asyncio.gather(*tasks)
        unknown = sum(task.result() is None for task in filtered.values())
    finally:
        pending: list[asyncio.Task[Any]] = [*tasks, *filtered.values()]
        for one in pending:
            one.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    notes = []
    if unknown:
        notes.append(
            f"The role may not read the entry filters of {unknown:,} topics: if there are any, subscriptions pass through."
        )
    if weight > 1:
        notes.append(f"The plan rests on a sample of {len(picked):,} of {len(names):,} topics and partitions.")
    clients = len(addresses) * weight if connections is None else connections
    return Workload(tuple(one for one in loads if one is not None), clients, tuple(notes))


async def _list(admin: AdminClient, place: str) -> list[TopicName]:
    """Return the persistent topics and partitions of a namespace.

    Raises:
        OwnerUnavailableError: the admin API did not answer with topics.
    """
    path = f"/admin/v2/persistent/{place}"
    found: Any = await admin.fetch(path)
    if isinstance(found, list) and all(isinstance(text, str) for text in found):
        with suppress(TopicNameError):
            return [parse_topic_name(text) for text in found]
    raise OwnerUnavailableError(f"the admin API answered {path} with no list of topics")


async def _has_filter(admin: AdminClient, topic: TopicName, slots: asyncio.Semaphore) -> bool | None:
    """Whether a topic has an entry filter; None if the role may not read the policies."""
    try:
        async with slots:
            found = await admin.policy(topic, "entryFilters")
    except AdminRefusedError:
        return None
    return isinstance(found, dict) and bool(found.get("entryFilterNames"))
