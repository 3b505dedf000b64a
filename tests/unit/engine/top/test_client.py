"""Requests of `top`: answers of brokers, of several workers, and of servers that are none."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from readonly_engine.status.document import encode
from readonly_engine.tool.errors import ToolError
from readonly_engine.top import client as module
from readonly_engine.top.client import StatusClient, check_url

from tests.support.answering import answering
from tests.support.states import SMALL


@asynccontextmanager
async def server(answer):
    """Answers every request; yields its URL."""
    asked = []

    async def handle(request):
        asked.append(request.path_qs)
        return answer(request)

    async with answering(handle) as url:
        yield url, asked


def read(answer, query=""):
    async def scene():
        async with server(answer) as (url, asked):
            client = StatusClient([url, url], query)
            try:
                return await client.read(), url, asked
            finally:
                await client.close()

    return asyncio.run(scene())


def test_a_broker_is_asked_once_for_what_is_shown():
    (one,), url, asked = read(lambda _: web.json_response(encode(SMALL)), "?prefix=a")
    assert (one.url, one.status, one.error) == (url, SMALL, "")
    assert asked == ["/status?prefix=a"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda _: web.json_response({"reason": "t has no\x1b consumers"}, status=404), "t has no\\x1b consumers"),
        (lambda _: web.json_response([], status=500), "HTTP status 500"),
        (lambda _: web.Response(text="<html>", content_type="text/html"), "the answer is no JSON: no broker"),
        (lambda _: web.Response(body=b"\xff\xfe\xff"), "the answer is no JSON"),
        (lambda _: web.json_response({"topics": 1}), "topics must be a list"),
        (lambda _: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "the answer is no JSON"),
        (lambda _: web.Response(body=b" " * 2000), "the answer is longer than"),
        (lambda _: web.Response(text="[" * 100_000), "nested too deeply"),
        (lambda _: web.Response(text='{"broker": {"uptime_s": 1e999}}'), "uptime_s must be a number between"),
        (lambda _: web.Response(text='{"broker": {"uptime_s": NaN}}'), "uptime_s must be a number between"),
        (lambda _: web.Response(text='{"relief": {"delivered_bytes": 1%s}}' % ("0" * 400)), "must be a number between"),
        (lambda _: web.Response(text='{"relief": {"delivered_bytes": 1%s}}' % ("0" * 5000)), "4300 digits"),
        (lambda _: web.Response(text='{"topics": [%s{}]}' % ("{}," * 5000)), "topics must have at most 1000 items"),
    ],
)
def test_another_answer_is_a_reason(monkeypatch, answer, error):
    if "longer" in error:
        monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 1000)
    (one,), _, _ = read(answer)
    assert one.status is None
    assert error in one.error


async def test_workers_are_asked_each_at_the_host_that_was_given():
    async with server(lambda _: web.json_response(encode(SMALL))) as (first, _):
        workers = [first.replace("127.0.0.1", "evil.example"), "nonsense", "http://[", 7]
        parent = json.dumps({"reason": "ask each worker", "workers": workers})
        answer = web.Response
        async with server(lambda _: answer(text=parent, status=404, content_type="application/json")) as (url, _):
            client = StatusClient([url], "")
            try:
                (one,) = await client.read()
            finally:
                await client.close()
    assert (one.url, one.status) == (first, SMALL)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker:8080",
        "ftp://a",
        "http://",
        "http://a:x",
        "http://a:99999",
        "http://[",
        "http://a?b",
        "ftp://u:secret@a",
    ],
)
def test_what_is_no_url_is_one_clear_error(text):
    with pytest.raises(ToolError, match="is no URL of a broker's HTTP port; write http://HOST:8080") as raised:
        check_url(text)
    assert "secret" not in str(raised.value)


def test_urls():
    assert check_url("http://a:8080/") == "http://a:8080"
    assert check_url("https://door/pods/orders-0:8080/proxy/") == "https://door/pods/orders-0:8080/proxy"
