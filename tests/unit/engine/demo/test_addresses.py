"""A running cluster that does not answer is one error, before anything is created."""

import asyncio

import pytest
from readonly_engine.demo.addresses import check_addresses
from readonly_engine.demo.errors import DemoError
from readonly_engine.demo.source_cluster import SourceCluster

DEAD = "127.0.0.1:1"


def check(status: int, store: str = "zk:{}", writer: str = "pulsar://{}", admin: str = "http://{}") -> None:
    tasks: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        if await reader.readline():
            answers.write(f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]".encode())
        answers.close()
        await answers.wait_closed()

    async def scene() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            urls = (one.format(address) for one in (store, writer, admin))
            try:
                await check_addresses(SourceCluster(*urls), "")
            finally:
                await asyncio.gather(*filter(None, tasks))

    asyncio.run(scene())


def test_a_cluster_that_answers_is_accepted_also_where_one_host_is_silent() -> None:
    check(200)
    check(200, "zk:127.0.0.1:1,{}/chroot", "pulsar://127.0.0.1:1,{}")


@pytest.mark.parametrize(
    ("status", "urls", "text"),
    [
        (200, {"admin": f"http://{DEAD}"}, r"--admin-url http://127\.0\.0\.1:1: no admin API answers: .*nothing was created"),
        (200, {"writer": f"pulsar://{DEAD}"}, r"--service-url pulsar://127\.0\.0\.1:1: no broker answers: .*nothing was created"),
        (200, {"store": f"zk:{DEAD}"}, r"--metadata-store-url zk:127\.0\.0\.1:1: no metadata store answers: .*nothing was"),
        (401, {}, "answers 401: give the file of a token by --token-file"),
        (404, {}, "no admin API of Pulsar, it answers 404"),
    ],
)  # fmt: skip
def test_what_does_not_answer_is_named(status: int, urls: dict[str, str], text: str) -> None:
    with pytest.raises(DemoError, match=text):
        check(status, **urls)
