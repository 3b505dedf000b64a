"""The status page: golden HTML, hostile names, accessibility, and the headers of its answers.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/engine/http/test_status_page.py, then read the diff.
"""

import asyncio
import base64
import hashlib
import itertools
import re
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from readonly_engine.http.guard import HttpPort
from readonly_engine.http.status.gather import About, Gatherer
from readonly_engine.http.status.handler import StatusPages
from readonly_engine.http.status.page import render, render_error, render_workers
from readonly_engine.http.status.quota import MAX_CONCURRENT
from readonly_engine.http.status.style import CSS, HEADERS
from readonly_engine.status.state import Pages, SubscriptionState
from readonly_engine.status.view import View

from tests.support.golden import check_golden
from tests.support.played_broker import STORES, PlayedBroker, PlayedSubscription, played_topic
from tests.support.states import ALL_HOSTILE, CLIENTS, HOSTILE, SMALL, TOPIC, P
from tests.support.waiting import until

GOLDEN = Path(__file__).parents[1] / "golden" / "status"
VOID = {"br", "input", "link", "meta"}

PAGES = {
    "topics": (SMALL, View(refresh=5)),
    "subscriptions": (TOPIC, View(topic=P + "clicks", page=2)),
    "consumers": (CLIENTS, View(topic=P + "clicks", subscription="audit")),
}
HOSTILE_PAGES = {
    "topics": (ALL_HOSTILE, View(prefix=HOSTILE[:500])),
    "subscriptions": (ALL_HOSTILE, View(topic=HOSTILE, prefix=HOSTILE[:500])),
    "consumers": (ALL_HOSTILE, View(topic=HOSTILE, subscription=HOSTILE)),
}


class Tree(HTMLParser):
    """Elements of a page, with the place of each; fails on an element that is not closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes, _ in self.elements if name == tag]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_the_golden_one(name):
    check_golden(GOLDEN / f"{name}.html", render(*PAGES[name]).replace(CSS, "", 1))


def check_inert(page, links, action):
    """Check that a page loads nothing, runs nothing, and has no other links and forms."""
    tree = Tree(page)
    assert not {tag for tag, _, _ in tree.elements} & {"script", "img", "iframe", "object", "embed", "base", "svg"}
    assert [one["href"] for one in tree.all("link")] == ["data:,"]
    for _, attributes, _ in tree.elements:
        assert not any(key.startswith("on") or key in {"src", "style", "srcdoc"} for key in attributes)
    for link in tree.all("a"):
        assert re.match(links, link["href"]), link
    assert [form["action"] for form in tree.all("form")] == [action]


@pytest.mark.parametrize("pages", [PAGES, HOSTILE_PAGES], ids=["small", "hostile"])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_loads_nothing_and_runs_nothing(pages, name):
    check_inert(render(*pages[name]), r"#list$|\./|status(\?|$)|http://", "./")


@pytest.mark.parametrize("name", HOSTILE_PAGES)
def test_hostile_names_stay_text_and_are_bounded(name):
    page = render(*HOSTILE_PAGES[name])
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    tree = Tree(page)
    shown = "".join(tree.text)
    assert not {one for one in shown if not one.isprintable()} - {"\n"}
    assert len(page) < 60_000, "each name is 2,000 characters long, and is shown with 300"


def check_accessible(page):
    tree = Tree(page)
    assert tree.all("html") == [{"lang": "en"}]
    assert [len(tree.all(landmark)) for landmark in ("header", "main", "footer", "h1", "title")] == [1] * 5
    levels = [int(tag[1]) for tag, _, _ in tree.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert len(tree.all("table")) == len(tree.all("caption")) > 0
    assert all(cell.get("scope") in {"col", "row"} for cell in tree.all("th"))
    ids = {attributes["id"] for _, attributes, _ in tree.elements if "id" in attributes}
    assert {label["for"] for label in tree.all("label")} <= ids
    controls = [one for one in tree.all("input") + tree.all("select") if one.get("type") != "hidden"]
    assert {one["id"] for one in controls} == {label["for"] for label in tree.all("label")}
    assert all(one["aria-label"] for one in tree.all("nav"))
    assert all(one["aria-labelledby"] in ids for one in tree.all("section"))
    assert tree.elements[[tag for tag, _, _ in tree.elements].index("body") + 1][1]["href"] == "#list"
    assert "list" in ids
    searches = [form for form in tree.all("form") if form.get("role") == "search"]
    assert len(searches) == len([one for one in tree.all("input") if one.get("type") == "search"])
    scrolled = [one for one in tree.all("div") if one.get("class") == "scroll"]
    assert all((one["tabindex"], one["role"]) == ("0", "region") for one in scrolled)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_accessible(name):
    check_accessible(render(*PAGES[name]))


def test_pages_are_linked_with_what_was_searched():
    status = replace(SMALL, pages=Pages(2, 50, 5000))
    page = render(status, View(prefix="a&b", page=2))
    assert 'href="./?prefix=a%26b&amp;page=3"' in page
    assert 'href="./?prefix=a%26b"' in page, "the first page"
    assert "Next page" not in render(replace(SMALL, pages=Pages(50, 50, 5000)), View(page=50))


def test_a_name_that_is_too_long_for_a_link_is_text():
    long = P + "x" * 5000
    page = render(replace(SMALL, topics=(replace(SMALL.topics[0], name=long),)), View())
    assert "topic=persistent" not in page


def test_very_long_names_take_no_time():
    """A client may choose the name of a subscription that is not durable: as long as a frame. Encoding it takes 50 ms."""
    long = tuple(SubscriptionState(name=f"{number}{500_000 * 'é<'}", kind="Shared") for number in range(100))
    began = time.thread_time()
    page = render(replace(TOPIC, subscriptions=long), View(topic=P + "clicks"))
    assert time.thread_time() - began < 0.5
    assert len(page) < 200_000


def test_errors_and_workers_are_escaped_too():
    page = render_error("Invalid parameter", HOSTILE)
    assert "<script" not in page
    Tree(page)
    page = render_workers([("worker 0", "http://127.0.0.1:8180/"), ("worker 1", "")], [HOSTILE])
    assert 'href="http://127.0.0.1:8180/"' in page
    assert "<script" not in page
    Tree(page)


def test_a_proxy_that_writes_html_again_leaves_the_style_as_it_is():
    """The API server's proxy escapes these characters in all texts. The hash of the policy would not be that of the style."""
    assert not set(CSS) & set("<>&'\"")


def test_the_policy_allows_this_style_and_nothing_else():
    policy = HEADERS["Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    assert f"<style>{CSS}</style>" in render(SMALL, View())
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy


# Over HTTP


@asynccontextmanager
async def serving(broker):
    app = web.Application()
    pages = StatusPages(Gatherer(broker, STORES, About()))
    pages.add_routes(app)
    port = HttpPort(app)
    await port.start("127.0.0.1", 0)
    try:
        async with ClientSession(f"http://127.0.0.1:{port.port}") as session:
            yield session, pages
    finally:
        await port.close()


def broker(count=1):
    return PlayedBroker({P + f"t-{number}": played_topic({"s": PlayedSubscription()}) for number in range(count)})


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/", 200, "text/html"),
        ("/?page=0", 400, "text/html"),
        ("/?topic=gone", 404, "text/html"),
        ("/status", 200, "application/json"),
        ("/status?refresh=3", 400, "application/json"),
    ],
)
async def test_each_answer_has_the_headers(method, path, status, kind):
    async with serving(broker()) as (session, _), session.request(method, path) as response:
        assert (response.status, response.content_type) == (status, kind)
        assert {key: response.headers[key] for key in HEADERS} == dict(HEADERS)
        body = await response.read()
        assert (body == b"") == (method == "HEAD")
        assert method == "HEAD" or int(response.headers["Content-Length"]) == len(body)


async def test_more_pages_than_a_few_at_once_are_refused_and_later_ones_are_not(monkeypatch):
    go = asyncio.Event()
    begun = []
    status = Gatherer.status

    async def slow(self, view, slices):
        begun.append(view)
        await go.wait()
        return await status(self, view, slices)

    monkeypatch.setattr(Gatherer, "status", slow)
    async with serving(broker()) as (session, _):
        first = [asyncio.create_task(session.get("/")) for _ in range(MAX_CONCURRENT)]
        await until(lambda: len(begun) >= MAX_CONCURRENT)
        async with session.get("/") as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "1"
            assert response.headers["Cache-Control"] == "no-store"
        go.set()
        assert [(await one).status for one in first] == [200] * MAX_CONCURRENT
        async with session.get("/") as response:
            assert response.status == 200


async def test_a_viewer_who_leaves_or_an_error_gives_the_place_back(monkeypatch):
    begun = []

    async def never(*_):
        begun.append(True)
        await asyncio.Event().wait()

    async def fails(*_):
        raise RuntimeError("a defect")

    async with serving(broker()) as (session, pages):
        monkeypatch.setattr(Gatherer, "status", never)
        for number in range(3 * MAX_CONCURRENT):
            request = asyncio.create_task(session.get("/"))
            await until(lambda number=number: len(begun) > number)
            request.cancel()
            await until(lambda: not pages._quota._running)
        monkeypatch.setattr(Gatherer, "status", fails)
        for _ in range(3 * MAX_CONCURRENT):
            async with session.get("/") as response:
                assert response.status == 500
        assert pages._quota._running == 0
