"""The page of a broker with several workers: a link to each, at the host that the browser used."""

import asyncio
import threading

import pytest
from aiohttp import ClientSession
from readonly_engine.config.reader import make_config
from readonly_engine.http.status.style import HEADERS
from readonly_engine.workers import parent as parent_module
from readonly_engine.workers.parent import Parent

from tests.support.waiting import until
from tests.unit.engine.config.values import REQUIRED

CONFIG = {**REQUIRED, "workers": 2}


def get(method, path, host):
    async def scene():
        parent = Parent(make_config({}, CONFIG), [])
        await parent.listen("127.0.0.1", 0)
        try:
            url = f"http://127.0.0.1:{parent._port.port}{path}"
            async with ClientSession() as session, session.request(method, url, headers={"Host": host}) as response:
                return response, await response.text()
        finally:
            await parent._port.close()

    return asyncio.run(scene())


def test_each_worker_has_a_link_and_a_reason_if_it_is_not_ready():
    response, page = get("GET", "/", "broker.example:8080")
    assert (response.status, response.content_type) == (200, "text/html")
    assert {key: response.headers[key] for key in HEADERS} == dict(HEADERS)
    assert 'href="http://broker.example:8180/"' in page
    assert 'href="http://broker.example:8280/"' in page
    assert "worker 1: not running" in page


@pytest.mark.parametrize("host", ['"><script>alert(1)</script>', "a b", "javascript:alert(1)", "[::"])
def test_a_hostile_host_makes_no_link(host):
    response, page = get("GET", "/", host)
    assert response.status in {200, 400}
    assert "<script" not in page
    assert 'href="javascript:' not in page


def test_programs_get_the_addresses_of_the_workers():
    response, text = get("GET", "/status?page=2", "a:1")
    assert response.status == 404
    assert "http://127.0.0.1:8180/status?page=2" in text


async def test_probes_are_answered_while_metrics_are_merged_once_for_all_requests(monkeypatch):
    free, merges = threading.Event(), []

    def merge(texts):
        merges.append(texts)
        assert free.wait(10)
        return b"merged"

    monkeypatch.setattr(parent_module, "merge", merge)
    parent = Parent(make_config({}, CONFIG), [])
    await parent.listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{parent._port.port}"
    try:
        async with ClientSession() as session, asyncio.timeout(30):
            scrapes = [asyncio.create_task(session.get(f"{url}/metrics")) for _ in range(5)]
            await until(lambda: merges)
            await until(lambda: len(parent._port) == 5)
            async with session.get(f"{url}/healthz") as response:
                assert response.status == 200
            free.set()
            for scrape in scrapes:
                assert await (await scrape).text() == "merged"
            assert len(merges) == 1
    finally:
        free.set()
        await parent._port.close()
