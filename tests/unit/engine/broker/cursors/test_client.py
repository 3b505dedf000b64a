"""The stock client on an event loop that ends before the server has answered."""

from __future__ import annotations

import asyncio
from contextlib import closing
from socket import create_server

import pytest
from pulsar.asyncio import Client, PulsarException
from readonly_engine.broker.cursors import client as client_module
from readonly_engine.broker.cursors.client import stock_client


def test_a_close_without_an_answer_ends_in_time_and_leaves_no_request_that_calls_back_later(monkeypatch):
    async def unanswered(self):
        await asyncio.Event().wait()

    async def leave(url: str) -> None:
        client = stock_client(url, None, None)
        creation = asyncio.ensure_future(client.create_producer("persistent://public/default/topic"))
        await client.close()
        with pytest.raises(PulsarException):
            async with asyncio.timeout(5):
                await creation

    monkeypatch.setattr(Client, "close", unanswered)
    monkeypatch.setattr(client_module, "CLOSE_TIMEOUT_S", 0.05)
    with closing(create_server(("127.0.0.1", 0))) as server:
        asyncio.run(leave(f"pulsar://127.0.0.1:{server.getsockname()[1]}"))
