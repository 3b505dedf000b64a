"""The end of a session with a ZooKeeper that does not answer any more."""

import asyncio
from threading import Event
from types import SimpleNamespace

import pytest
from kazoo.exceptions import WriterNotClosedException
from readonly_engine.metadata import zookeeper
from readonly_engine.metadata.zookeeper import ZooKeeperStore


def _raise() -> None:
    raise WriterNotClosedException("Writer still open from prior connection")


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "refuses"])
async def test_a_close_ends_in_time_without_an_error(monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    monkeypatch.setattr(zookeeper, "CLOSE_TIMEOUT_S", 0.05)
    answered = Event()
    store = ZooKeeperStore("127.0.0.1:1")
    store._client = SimpleNamespace(stop=_raise if answers else answered.wait, close=lambda: None)
    async with asyncio.timeout(10):
        await store.close()
    answered.set()
