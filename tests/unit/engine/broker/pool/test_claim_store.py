"""Claims against a store that does not answer for a while."""

from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool import claim_store
from readonly_engine.broker.pool.claim_store import ClaimStore
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.clock import lease_time
from readonly_engine.metadata.lease import SessionLease
from readonly_engine.metadata.store import ClaimResult
from readonly_engine.metadata.topic_name import parse_topic_name

from tests.support.memory_store import MemoryStore
from tests.support.waiting import until

KEY = ClaimKey(parse_topic_name("persistent://public/default/t"), "s")
URL = "pulsar://here"


class SessionStore(MemoryStore):
    """A store with one session, which lasts."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def on_session(self, call):
        lease = SessionLease()
        lease.session, lease.until = 7, lease_time() + 100
        call(lease)

    async def claim(self, path, value):
        self._check()
        self.write(path, value)
        return ClaimResult(7)

    async def release(self, path):
        self.asked += 1
        self._check()
        self.write(path, None)


@pytest.mark.parametrize("again", [False, True])
async def test_a_claim_that_could_not_be_removed_is_removed_later_or_used_again(monkeypatch, again):
    """Otherwise it lasts as long as the session, and the other brokers wait for a broker that serves nothing."""
    monkeypatch.setattr(claim_store, "RELEASE_RETRY_S", (0.01, 0.02))
    store = SessionStore()
    claims = ClaimStore(store, SimpleNamespace(folder="/pulsar-readonly/pools/p", url=URL, members=(URL,)))
    claims.start(lambda _: None)
    try:
        claim = await claims.acquire(KEY)
        assert len(store.nodes) == 1
        store.silent = True
        claims.release(claim)
        await until(lambda: store.asked >= 4)
        store.silent = False
        if again:
            await claims.acquire(KEY)
            assert (claims.held, len(store.nodes)) == ([KEY], 1)
        else:
            await until(lambda: not store.nodes)
            assert claims.held == []
    finally:
        claims.close()
