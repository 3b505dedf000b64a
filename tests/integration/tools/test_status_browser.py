"""The status pages of a running pool in a real Chromium: figures, foreign names, links and forms, and accessibility.

`make -C lab screenshots` makes pictures of these pages, for people to look at.
"""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from pulsar import Client

from devstack.browser.webdriver import Session, SessionError
from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.status import Endpoints
from tests.integration.conftest import OPERATION_S
from tests.support import page_audit as audit
from tests.support.browsers import started
from tests.support.pulsar.fleet import SHARED, TESTS, quiet_client
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

MARKUP: Final = "<img src=x onerror=alert(1)>"
NAME: Final = f"{MARKUP}<script>alert(2)</script>\"'&amp;</table><base href=//127.0.0.2/>\u202e\x1b[2J"
"""Name of a subscription and of a consumer. Each part of it would run, load or change something as HTML."""

LONG: Final = "w" * 280
"""A name without a place where a line may end."""

PARTITIONS: Final = 205
"""Topics of three pages."""

ERROR_PAGE: Final = re.compile(
    r"http://127\.0\.0\.1:\d+/(\?\S*)? - Failed to load resource: the server responded with a status of (400|404|503) "
)
"""The console's line about a page with an error that a test has opened itself. A part of a page has another path."""

NARROW: Final = 320
SCHEMES: Final = ("light", "dark")
ROWS: Final = "return [...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody th').length"
CELLS: Final = """
return [...[...document.querySelectorAll('table')].at(-1).tBodies[0].rows].map(row => [...row.cells].map(one => one.textContent))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Session]:
    """One browser for all tests of the file."""
    with started() as session:
        yield session


@pytest.fixture
def page(browser: Session) -> Iterator[Session]:
    """The browser as a user has it. At the end of the test, no page of it has asked another host, failed or run a script."""
    browser.devtools("Emulation.setScriptExecutionDisabled", value=False)
    browser.prefer()
    browser.resize(1200)
    browser.open("about:blank")
    browser.requests()
    browser.log("browser")
    yield browser
    assert browser.alert() is None
    assert {urlsplit(url).hostname for url in browser.requests() if not url.startswith("data:,")} <= {"127.0.0.1", None}
    # Violations of the page's policy are in it too.
    assert [one for one in browser.log("browser") if not ERROR_PAGE.match(one["message"])] == []


@pytest.fixture(scope="module")
def hosts(pulsar: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A pool of two brokers."""
    with closing(
        Pool(pulsar, tmp_path_factory.mktemp("pool"), f"pages-{uuid.uuid4().hex[:8]}", ["--topics", TESTS])
    ) as made:
        made.start(2)
        yield made


@pytest.fixture
def client(hosts: Pool) -> Iterator[Client]:
    """A client of the pool."""
    with closing(quiet_client(hosts.url)) as made:
        yield made


def serving(pool: Pool, topic: str) -> BrokerProcess:
    """The broker that serves a topic's subscription."""

    def found() -> BrokerProcess | None:
        for one in pool.brokers:
            stats = one.stats()["topics"].get(topic, {"subscriptions": {}})
            if any("servedBy" not in each for each in stats["subscriptions"].values()):
                return one
        return None

    return wait_until(found)


def visit(page: Session, url: str) -> None:
    """Open a page, when the broker is not busy with other pages."""

    def opened() -> bool:
        page.open(url)
        return page.title != "Busy"

    wait_until(opened)


def query(page: Session) -> dict[str, list[str]]:
    """The query of the page's URL."""
    return parse_qs(urlsplit(page.url).query)


def at_each_level(page: Session, broker: BrokerProcess, topic: str, subscription: str) -> Iterator[str]:
    """Open each kind of page in turn."""
    views = ({}, {"topic": topic}, {"topic": topic, "subscription": subscription})
    for path in (*(f"/?{urlencode(view)}" for view in views), "/pool", "/?page=x", "/?topic=no"):
        visit(page, broker.http_url + path)
        yield path


def test_the_page_of_a_broker_leads_from_topics_to_consumers(page, hosts, client, pulsar_client, topic) -> None:
    producer = pulsar_client.create_producer(topic)
    consumer = client.subscribe(topic, "audit", SHARED, consumer_name="auditor", receiver_queue_size=10)
    for number in range(20):
        producer.send(b"%d" % number)
    for _ in range(15):
        consumer.acknowledge(consumer.receive(10_000))
    broker = serving(hosts, topic)
    visit(page, f"{broker.http_url}/")
    assert page.title == f"{broker.url} · pool {hosts.name}"
    assert page.run("return document.querySelector('h1').textContent") == f"Read-only broker {broker.url}"

    def lag() -> bool:
        visit(page, f"{broker.http_url}/?{urlencode({'prefix': topic})}")
        (cells,) = page.run(CELLS)
        return [*cells[:3], cells[5], cells[7]] == [topic, "1", "1", "5", "0"]

    wait_until(lag)
    page.follow(topic)
    assert query(page)["topic"] == [topic]
    ((name, kind, consumers, *_, unacked, position, served),) = page.run(CELLS)
    assert (name, kind, consumers, served) == ("audit", "Shared", "1", "this broker")
    assert int(unacked) >= 0
    assert re.fullmatch(r"\d+:\d+", position)
    page.follow("audit")
    ((name, address, version, *_),) = page.run(CELLS)
    assert name == "auditor"
    assert address.startswith("127.0.0.1:")
    assert version
    page.follow("All topics")
    assert query(page) == {}


def test_the_page_of_the_pool_has_both_brokers(page, hosts, client, topic) -> None:
    client.subscribe(topic, "audit", SHARED)
    asked = serving(hosts, topic)
    other = next(one for one in hosts.brokers if one is not asked)
    visit(page, f"{asked.http_url}/")
    page.follow("Figures of all brokers of the pool")
    assert urlsplit(page.url).path == "/pool"

    def rows() -> list[list[str]]:
        visit(page, f"{asked.http_url}/pool")
        found = page.run(CELLS)
        return found if all(row[1] == "serving" for row in found) else []

    found = {row[0].removesuffix(" (this broker)"): row for row in wait_until(rows)}
    assert found.keys() == {one.url for one in hosts.brokers}
    assert int(found[asked.url][5]) >= 1  # consumers
    assert found[other.url][12] == "connected"
    page.follow(other.url)
    wait_until(lambda: page.url == f"{other.http_url}/")
    assert other.url in page.run("return document.querySelector('h1').textContent")


def test_hostile_names_are_text(page, hosts, client, pulsar_client, topic) -> None:
    """Of a topic, a subscription and a consumer; on each page, and in its title."""
    hostile = f"{topic}-{MARKUP}&amp;"
    pulsar_client.create_producer(hostile).close()
    client.subscribe(hostile, NAME, SHARED, consumer_name=NAME)
    broker = serving(hosts, hostile)
    shown = NAME.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    seen = []
    for path in at_each_level(page, broker, hostile, NAME):
        assert audit.foreign(page) == [], path
        assert page.alert() is None
        assert page.run("return document.baseURI") == page.url
        seen.append(page.run("return document.body.textContent"))
    assert hostile in seen[0]
    assert all(shown in text for text in seen[1:3])
    visit(page, f"{broker.http_url}/?{urlencode({'topic': hostile, 'prefix': MARKUP})}")
    assert page.run("return document.querySelector('#prefix').value") == MARKUP
    page.follow("All topics")
    page.follow(hostile)  # the links of such names lead to their pages
    page.follow(shown)
    assert query(page)["subscription"] == [NAME]
    assert page.run(CELLS)[0][0] == shown
    assert shown in page.title


@pytest.mark.nightly
def test_pages_and_prefix_work_by_links_and_forms(page, own_pool, admin, topic) -> None:
    """And without scripts, which the page does not have."""
    admin.create_partitioned_topic(topic, PARTITIONS)
    pool = own_pool(1, "--topics", TESTS)
    (broker,) = pool.brokers
    client = quiet_client(pool.url, operation_timeout_seconds=OPERATION_S)
    client.subscribe(topic, "audit")
    partition = f"{topic}-partition-1"
    wait_until(lambda: sum(name.startswith(topic) for name in broker.stats()["topics"]) == PARTITIONS, 60)
    visit(page, f"{broker.http_url}/")
    assert page.run("return document.scripts.length") == 0
    page.devtools("Emulation.setScriptExecutionDisabled", value=True)
    page.type("#prefix", topic)
    page.click("button")
    wait_until(lambda: query(page).get("prefix") == [topic])
    assert page.run(ROWS) == 100
    assert f"Page 1 of 3, {PARTITIONS} topics" in page.run("return document.body.textContent")
    page.follow("Next page")
    wait_until(lambda: query(page).get("page") == ["2"])
    page.follow("Last page")
    wait_until(lambda: query(page).get("page") == ["3"])
    assert query(page)["prefix"] == [topic]
    assert page.run(ROWS) == PARTITIONS - 200
    with pytest.raises(SessionError, match="no such element"):
        page.follow("Next page")
    page.follow("Previous page")
    wait_until(lambda: query(page).get("page") == ["2"])
    page.type("#prefix", partition)
    page.press("Enter")
    wait_until(lambda: query(page).get("prefix") == [partition])
    expected = sum(str(number).startswith("1") for number in range(PARTITIONS))
    assert f"{expected} topics" in page.run("return document.body.textContent")
    client.close()


@pytest.mark.nightly
def test_the_page_loads_itself_again_if_asked(page, hosts) -> None:
    visit(page, f"{hosts.brokers[0].http_url}/")
    page.run("document.querySelector('#refresh').value = '2'")
    page.click("button")
    wait_until(lambda: query(page).get("refresh") == ["2"])
    page.run("window.first = true")
    wait_until(lambda: not page.run("return window.first === true"), 20)
    assert page.run("return document.querySelector('#refresh').value") == "2"


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", SCHEMES)
def test_structure_names_contrast_and_focus(page, hosts, client, topic, scheme) -> None:
    client.subscribe(topic, "audit", SHARED, consumer_name="auditor")
    broker = serving(hosts, topic)
    page.prefer(color_scheme=scheme)
    backgrounds = set()
    for path in at_each_level(page, broker, topic, "audit"):
        assert audit.structure(page) == [], path
        assert audit.text_contrast(page) == [], path
        assert audit.unnamed(page) == [], path
        stops, found = audit.tab_stops(page)
        assert found == [], path
        # A page of figures: the way to the list, a link, and the table; one of an error has a link.
        assert stops >= (1 if path in {"/?page=x", "/?topic=no"} else 4), path
        backgrounds.add(page.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 1
    assert ("255" in backgrounds.pop()) == (scheme == "light")


@pytest.mark.nightly
def test_the_first_stop_of_the_keyboard_leads_to_the_list(page, hosts) -> None:
    visit(page, f"{hosts.brokers[0].http_url}/")
    page.press("Tab")
    assert page.run("return document.activeElement.textContent") == "Skip to the list"
    page.press("Enter")
    wait_until(lambda: page.url.endswith("#list"))
    page.press("Tab")
    assert page.run("return document.activeElement.id") == "prefix"


@pytest.mark.nightly
def test_a_narrow_window_needs_no_scrolling_to_the_side(page, hosts, client, topic) -> None:
    """At the width of WCAG 2.2, 1.4.10, with long names. Tables scroll in a frame of their own, also by the keyboard."""
    client.subscribe(topic, LONG, SHARED, consumer_name=LONG)
    broker = serving(hosts, topic)
    page.resize(NARROW, 640)
    for path in at_each_level(page, broker, topic, LONG):
        assert audit.overflow(page) == [], path
    visit(page, f"{broker.http_url}/?{urlencode({'topic': 'x' * 300})}")
    assert audit.overflow(page) == []
    visit(page, f"{broker.http_url}/?{urlencode({'topic': topic})}")
    frames = "return [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth)"
    assert page.run(f"{frames}.length") == 1
    assert page.run(f"{frames}.every(one => one.tabIndex === 0 && one.getAttribute('aria-label'))")


@pytest.mark.nightly
def test_nothing_moves(page, hosts) -> None:
    page.prefer(reduced_motion="reduce")
    for path in ("/", "/pool"):
        visit(page, hosts.brokers[0].http_url + path)
        assert page.run("return matchMedia('(prefers-reduced-motion: reduce)').matches")
        assert audit.motion(page) == []


BROKEN: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "caption": ("document.querySelector('caption').remove()", audit.structure),
    "scope": ("document.querySelector('th').removeAttribute('scope')", audit.structure),
    "label": ("document.querySelector('label').remove()", audit.structure),
    "heading": ("document.querySelector('h2').outerHTML = '<h4>x</h4>'", audit.structure),
    "lang": ("document.documentElement.lang = ''", audit.structure),
    "contrast": ("document.querySelector('dt').style.color = '#999'", audit.text_contrast),
    "focus": ("document.querySelector('select').style.outline = 'none'", lambda page: audit.tab_stops(page)[1]),
    "name": ("document.querySelector('button').textContent = ''", audit.unnamed),
    "overflow": ("document.querySelector('h1').style.width = '2000px'", audit.overflow),
    "motion": ("document.querySelector('a').style.transition = 'color 1s'", audit.motion),
    "attribute": ("document.querySelector('a').setAttribute('onfocus', '')", audit.foreign),
}


@pytest.mark.nightly
@pytest.mark.parametrize("defect", BROKEN)
def test_the_checks_of_this_file_find_a_defect(page, hosts, defect) -> None:
    change, check = BROKEN[defect]
    visit(page, f"{hosts.brokers[0].http_url}/")
    assert check(page) == []
    page.run(change)
    assert check(page) != []
    page.open("about:blank")
    page.log("browser")  # the policy's word about the changes above
