"""The page of the pool: golden HTML, hostile answers, accessibility, and requests to other brokers within their bounds.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/engine/http/test_pool_page.py, then read the diff.
"""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from aiohttp import ClientSession, web
from readonly_engine.broker.pool.membership import Member
from readonly_engine.http.guard import HttpPort
from readonly_engine.http.status import members as module
from readonly_engine.http.status.gather import About, Gatherer
from readonly_engine.http.status.handler import StatusPages
from readonly_engine.http.status.members import MAX_CONCURRENT_REQUESTS, NO_HTTP, NOT_PUBLISHED, MemberReader
from readonly_engine.http.status.pool_page import render_pool
from readonly_engine.http.status.quota import BURST_S
from readonly_engine.http.status.style import CSS
from readonly_engine.status.document import encode
from readonly_engine.status.pool import MemberAnswer, PoolState
from readonly_engine.status.state import MemberState

from tests.support.answering import answering
from tests.support.golden import check_golden
from tests.support.played_broker import STORES, PlayedBroker, PlayedSubscription, played_topic
from tests.support.states import ALL_HOSTILE, HOSTILE, SMALL, P
from tests.support.waiting import until
from tests.unit.engine.http.test_status_page import GOLDEN, Tree, check_accessible, check_inert

LONG_S = 30.0
BARE = replace(SMALL, members=(), topics=())
LEAVING = replace(
    BARE,
    broker=replace(SMALL.broker, url="pulsar://orders-1:6650", draining=True),
    source=replace(SMALL.source, suspended=True),
)
POOL = PoolState(
    "orders", "7c1e", 4,
    (
        MemberAnswer(MemberState("pulsar://orders-0:6650", "http://orders-0:8080/", 12, "/eu/a", itself=True), BARE),
        MemberAnswer(MemberState("pulsar://orders-1:6650", "http://orders-1:8080/", 12, "/eu/b"), LEAVING),
        MemberAnswer(MemberState("pulsar://orders-2:6650", "", 3, "/eu/b"), None, NOT_PUBLISHED),
    ),
)  # fmt: skip
NASTY = PoolState(HOSTILE, HOSTILE, 1, (MemberAnswer(MemberState(HOSTILE, "", 1, HOSTILE), ALL_HOSTILE, HOSTILE),))


def test_the_page_is_the_golden_one():
    check_golden(GOLDEN / "pool.html", render_pool(POOL, 5).replace(CSS, "", 1))


@pytest.mark.parametrize("pool", [POOL, NASTY, PoolState()], ids=["small", "hostile", "empty"])
def test_it_loads_nothing_and_is_accessible(pool):
    page = render_pool(pool, 0)
    check_inert(page, r"#list$|\./|http://", "./pool")
    check_accessible(page)
    assert not {one for one in "".join(Tree(page).text) if not one.isprintable()} - {"\n"}
    assert len(page) < 30_000, "each name is 2,000 characters long, and is shown with 300"


# Requests to other brokers


@asynccontextmanager
async def server(handle):
    """A broker that answers as given; yields its port and what it was asked."""
    asked = []

    async def answer(request):
        asked.append(request.path_qs)
        return await handle(request)

    async with answering(answer) as url:
        yield int(url.rpartition(":")[2]), asked


def member(port, number=0):
    return MemberState(f"pulsar://m-{number}:6650", f"http://127.0.0.1:{port}/")


def states(**given):
    async def handle(_):
        return web.json_response(encode(replace(SMALL, broker=replace(SMALL.broker, **given))))

    return handle


def read(handle, count=1, rounds=1):
    """Ask several brokers at one port; return the answers, what was asked, and the seconds that were charged."""

    async def scene():
        charged = []
        async with server(handle) as (port, asked):
            reader = MemberReader(charged.append)
            for _ in range(rounds):
                found = await reader.read("orders", "7c1e", [member(port, number) for number in range(count)])
            return found, asked, charged

    return asyncio.run(scene())


def test_a_broker_is_asked_for_its_figures_without_lists():
    (one,), asked, charged = read(states(url="pulsar://m-0:6650"))
    assert one.status is not None
    assert one.status.topics == ()
    assert asked == ["/status?summary=1"]
    assert len(charged) == 1
    assert charged[0] > 0


def large(_):
    return web.Response(body=b" " * (module.MAX_ANSWER_BYTES + 1))


def at_bound(_):
    document = encode(replace(SMALL, broker=replace(SMALL.broker, url="pulsar://m-0:6650")))
    return web.Response(body=json.dumps(document).encode().ljust(module.MAX_ANSWER_BYTES))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (at_bound, ""),
        (large, "the answer is longer than 256 KiB"),
        (lambda _: web.Response(text="<html>"), "the answer must be an object"),
        (lambda _: web.Response(text="[" * 100_000), "the answer must be an object"),
        (lambda _: web.Response(status=302, headers={"Location": "/elsewhere"}), "HTTP status 302"),
        (lambda _: web.json_response({"reason": "busy"}, status=503), "busy"),
    ],
)
def test_another_answer_is_a_reason(answer, error):
    async def handle(request):
        return answer(request)

    (one,), asked, _ = read(handle)
    assert one.error.startswith(error)
    assert (one.status is None) == bool(error)
    assert len(asked) == 1, "no redirect is followed"


async def test_a_broker_without_a_page_and_this_one_are_not_asked():
    reader = MemberReader(lambda _: None)
    found = await reader.read(
        "orders", "", [MemberState("pulsar://a:1"), MemberState("pulsar://b:1", "http://b:1/", itself=True)]
    )
    assert [(one.member.url, one.error) for one in found] == [("pulsar://a:1", NOT_PUBLISHED)]


@pytest.mark.parametrize("deadline", ["MEMBER_TIMEOUT_S", "ROUND_TIMEOUT_S"])
def test_silent_brokers_have_the_reason_within_the_deadlines(monkeypatch, deadline):
    for name in ("MEMBER_TIMEOUT_S", "ROUND_TIMEOUT_S"):
        monkeypatch.setattr(module, name, 0.05 if name == deadline else LONG_S)

    async def handle(_):
        await asyncio.Event().wait()

    found, _, _ = read(handle, count=MAX_CONCURRENT_REQUESTS * 5)
    assert {one.error for one in found} == {"no answer within 0.05 s"}


async def test_silent_brokers_take_the_time_of_the_others_once_only(monkeypatch):
    monkeypatch.setattr(module, "MEMBER_TIMEOUT_S", LONG_S)
    monkeypatch.setattr(module, "ROUND_TIMEOUT_S", 0.3)
    monkeypatch.setattr(module, "REUSE_S", 0.01)
    answered, others_have_answered = [], asyncio.Event()

    async def silent(_):
        await others_have_answered.wait()
        return web.json_response({})

    async def well(_):
        answered.append(True)
        if len(answered) == 4:
            others_have_answered.set()
        return web.json_response({"reason": "busy"}, status=503)

    async with server(silent) as (first, _), server(well) as (second, _):
        count = MAX_CONCURRENT_REQUESTS
        members = [member(first, number) for number in range(count)]
        members += [member(second, number) for number in range(count, count + 4)]
        reader, rounds = MemberReader(lambda _: None), []
        for _ in range(2):
            found = await reader.read("orders", "", members)
            rounds.append([one.error for one in found[count:]])
            await until(lambda: not reader._recent)
            monkeypatch.setattr(module, "ROUND_TIMEOUT_S", LONG_S)
        await reader.read("orders", "", [member(second, 99)])
    assert rounds == [["no answer within 0.3 s"] * 4, ["busy"] * 4]
    assert reader._silent == set(), "nothing is kept of brokers that have left the pool"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-secret_banner\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: secret_banner\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret_banner\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"secret_banner" * 2000 + b"\r\n\r\n",
    ],
)
async def test_the_page_shows_nothing_of_another_server_at_a_published_address(answer):
    async def handle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        (one,) = await MemberReader(lambda _: None).read("orders", "", [member(port)])
    assert one.error == NO_HTTP


def test_few_are_asked_at_once():
    running, most = 0, 0

    async def handle(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return web.json_response({})

    found, asked, _ = read(handle, count=MAX_CONCURRENT_REQUESTS * 4)
    assert most == MAX_CONCURRENT_REQUESTS
    assert len(asked) == len(found) == MAX_CONCURRENT_REQUESTS * 4


async def test_all_viewers_share_a_round_and_nothing_is_kept_for_long(monkeypatch):
    monkeypatch.setattr(module, "REUSE_S", LONG_S)
    async with server(states(url="pulsar://m-0:6650")) as (port, asked):
        reader = MemberReader(lambda _: None)
        await asyncio.gather(*(reader.read("orders", "", [member(port)]) for _ in range(50)))
        assert len(asked) == 1
        busier = replace(member(port), consumers=99)
        (one,) = await reader.read("orders", "", [busier])
        assert one.status is not None
        assert len(asked) == 1, "another number of consumers is no other broker"
        monkeypatch.setattr(module, "REUSE_S", 0.01)
        reader = MemberReader(lambda _: None)
        for expected in (2, 3):
            await reader.read("orders", "", [member(port)])
            assert len(asked) == expected
            await until(lambda: not reader._recent)


async def test_a_broker_that_has_joined_since_is_asked_at_once():
    async with server(states(url="pulsar://m-0:6650")) as (port, asked):
        reader = MemberReader(lambda _: None)
        await reader.read("orders", "", [member(port)])
        found = await reader.read("orders", "", [member(port), member(port, 1)])
        assert len(asked) == 3
        assert [one.error for one in found] == ["", "another broker answers there: pulsar://m-0:6650"]


# Over HTTP


def broker():
    return PlayedBroker({P + "t": played_topic({"s": PlayedSubscription(messages=5)})})


@asynccontextmanager
async def pool_of(count):
    """Brokers of one pool, each with its pages; yields a session for the first one, its pages, and all brokers."""
    brokers, ports = [broker() for _ in range(count)], []
    pages = [StatusPages(Gatherer(one, STORES, About())) for one in brokers]
    for one in pages:
        app = web.Application()
        one.add_routes(app)
        port = HttpPort(app)
        await port.start("127.0.0.1", 0)
        ports.append(port)
    members = [Member(f"pulsar://127.0.0.1:{one.port}", http_port=one.port) for one in ports]
    for one, its in zip(brokers, members, strict=True):
        one.pool = SimpleNamespace(
            url=its.url, name="orders", uid="7c1e", locality="", members={other.url: other for other in members}
        )
    try:
        async with ClientSession(f"http://127.0.0.1:{ports[0].port}") as session:
            yield session, pages[0], brokers
    finally:
        for port in ports:
            await port.close()


@pytest.mark.parametrize("path", ["/pool", "/pool/status"])
async def test_a_wrong_parameter_and_other_methods_are_refused(path):
    async with pool_of(1) as (session, _, _):
        async with session.get(f"{path}?refresh=3") as response:
            assert response.status == 400
        async with session.head(path) as response:
            assert response.status == 200
            assert await response.read() == b""
        async with session.post(path) as response:
            assert response.status == 405


async def test_pages_beyond_the_share_of_time_are_refused_before_any_broker_is_asked():
    async with pool_of(2) as (session, pages, _):
        pages._quota.charge(BURST_S + 10)
        async with session.get("/pool") as response:
            assert response.status == 503
            assert int(response.headers["Retry-After"]) > 1
        assert pages._members._recent == {}


async def test_a_silent_broker_keeps_no_place_of_other_viewers(monkeypatch):
    begun, go = asyncio.Event(), asyncio.Event()

    async def silent(*_):
        begun.set()
        await go.wait()
        return []

    monkeypatch.setattr(MemberReader, "read", silent)
    async with pool_of(2) as (session, pages, _):
        waiting = [asyncio.create_task(session.get("/pool")) for _ in range(5)]
        await begun.wait()
        assert pages._quota._running == 0
        async with session.get("/") as response:
            assert response.status == 200
        go.set()
        assert {(await one).status for one in waiting} <= {200, 503}
        assert pages._quota._running == 0
