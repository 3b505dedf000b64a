"""The metadata store of a cluster, opened for a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from readonly_engine.metadata.connect import store_at
from readonly_engine.metadata.store import MetadataStore
from readonly_engine.metadata.url import MetadataUrl


@asynccontextmanager
async def opened_store(url: str) -> AsyncIterator[MetadataStore]:
    """Open the store at a URL."""
    store = store_at(MetadataUrl.parse(url))
    await store.start()
    try:
        yield store
    finally:
        await store.close()
