"""The page and the metrics of a broker with several workers: a link to each, at the host that the browser used."""

import asyncio
import threading

import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from readonly_engine.config.reader import make_config
from readonly_engine.http.status.style import HEADERS
from readonly_engine.workers import parent as parent_module
from readonly_engine.workers.merge import merge
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


def exposition(messages, topics, seconds):
    registry = CollectorRegistry()
    Counter("served_messages", "Messages served.", ["topic"], registry=registry).labels("a b\n").inc(messages)
    Gauge("open_topics", "Topics.", registry=registry).set(topics)
    Histogram("wait_seconds", "Waits.", buckets=[0.1, 1], registry=registry).observe(seconds)
    return generate_latest(registry).decode()


def test_each_sample_says_of_which_worker_it_is():
    merged = merge({0: exposition(3, 1, 0.05), 1: exposition(4, 2, 0.5)}).decode()
    samples = {
        (sample.name, sample.labels["worker"], sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(merged)
        for sample in family.samples
    }
    assert samples["served_messages_total", "0", ""] == 3
    assert samples["served_messages_total", "1", ""] == 4
    assert samples["open_topics", "1", ""] == 2
    assert samples["wait_seconds_bucket", "0", "0.1"] == 1
    assert samples["wait_seconds_bucket", "1", "0.1"] == 0
    assert merged.count("# TYPE served_messages_total counter") == 1
    assert r'topic="a b\n"' in merged


def test_a_worker_that_tells_nothing_is_left_out():
    assert merge({1: exposition(1, 1, 1)}).count(b'worker="1"') == merge({1: exposition(1, 1, 1)}).count(b"worker=")
    assert merge({}) == b""


def test_what_is_no_exposition_is_an_error():
    with pytest.raises(ValueError, match=r".+"):
        merge({0: "not {a metric"})
