"""Samples of the last confirmed entry of open ledgers. They are only read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.doctor.checks.explicit_lac import LacSample, TopicLac
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.doctor.clients import Clients
    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

MAX_TOPICS: Final = 10
"""Topics and partitions that are sampled."""

SAMPLING_S: Final = 3.0
INTERVAL_S: Final = 0.1


async def sample_topics(
    ledgers: Mapping[TopicName, ManagedLedgerInfo], clients: Clients, deadline: Deadline
) -> list[TopicLac]:
    """Sample the newest ledgers of the first MAX_TOPICS topics, beside each other."""
    chosen = list(ledgers.items())[:MAX_TOPICS]
    return list(await asyncio.gather(*(_sample(topic, info, clients, deadline) for topic, info in chosen)))


async def _sample(topic: TopicName, info: ManagedLedgerInfo, clients: Clients, deadline: Deadline) -> TopicLac:
    name = str(topic)
    if not info.ledger_info or clients.stores is None or clients.bookies is None:
        return TopicLac(name)
    ledger_id = max(ledger.ledger_id for ledger in info.ledger_info)  # the list is not always in order
    loop = asyncio.get_running_loop()
    samples: list[LacSample] = []
    try:
        async with deadline.request():
            metadata = await clients.stores.cluster.ledger(ledger_id)
            if metadata is None or metadata.closed:
                return TopicLac(name)
            reader = LedgerReader(ledger_id, metadata, clients.bookies)
            end = loop.time() + SAMPLING_S
            while True:
                answer = await reader.read_lac()
                samples.append(LacSample(loop.time(), answer.lac, answer.last_entry, answer.explicit))
                if loop.time() >= end:
                    break
                await asyncio.sleep(INTERVAL_S)
    except (MetadataError, BookKeeperError, WireError, TimeoutError) as error:
        if not samples:
            return TopicLac(name, problem=failure_of(error).text)
    return TopicLac(name, open=True, samples=samples)
