"""The stock client on an event loop that ends before the server has answered."""

import asyncio
from contextlib import closing
from socket import create_server

import _pulsar
import pytest
from pulsar.asyncio import Client, PulsarException
from readonly_engine.broker.cursors import client as client_module
from readonly_engine.broker.cursors.client import stock_client


async def _unanswered(_):
    await asyncio.Event().wait()


async def _refused(_):
    raise PulsarException(_pulsar.Result.UnknownError)


@pytest.mark.parametrize("close", [_unanswered, _refused])
def test_a_close_that_fails_ends_in_time_and_leaves_no_request_that_calls_back_later(monkeypatch, close):
    async def leave(url: str) -> None:
        client = stock_client(url, None, None)
        creation = asyncio.ensure_future(client.create_producer("persistent://public/default/topic"))
        await client.close()
        with pytest.raises(PulsarException):
            async with asyncio.timeout(5):
                await creation

    monkeypatch.setattr(Client, "close", close)
    monkeypatch.setattr(client_module, "CLOSE_TIMEOUT_S", 0.05)
    with closing(create_server(("127.0.0.1", 0))) as server:
        asyncio.run(leave(f"pulsar://127.0.0.1:{server.getsockname()[1]}"))
