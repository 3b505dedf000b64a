"""Closing while a connection is being opened, on real sockets."""

import asyncio
import gc
import warnings

import pytest
from readonly_engine.bookkeeper.errors import BookieUnavailableError
from readonly_engine.bookkeeper.pool import BookiePool


def test_a_connection_that_is_being_opened_when_the_pool_closes_is_closed_too():
    async def run():
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()[:2]

        async def resolve(_bookie_id):
            return address

        for turns in range(8):  # amid each step of the opening
            pool = BookiePool(resolve)
            asking = [asyncio.ensure_future(pool.for_reads(name)) for name in ("a", "b")]
            for _ in range(turns):
                await asyncio.sleep(0)
            pool.close()
            async with asyncio.timeout(10):
                await pool.wait_closed()
            await asyncio.gather(*asking, return_exceptions=True)
            assert not pool._reads._opening
            with pytest.raises(BookieUnavailableError, match="the connections were closed"):
                await pool.for_reads("a")
        server.close()
        await server.wait_closed()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(run())
        gc.collect()
