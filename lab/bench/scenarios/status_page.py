"""The status page: time of a load in a browser and of its requests, with few topics and thousands; CPU while nobody looks.

Each topic has a reader and nothing is published. Three read-only brokers run at once: one with few topics, and two with all of
them. A page of one of the two is loaded, and none of the other; their CPU is measured in the same windows, before and after that.
"""

from __future__ import annotations

import http.client
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from bench.client import LoadClient
from bench.cpu import cpu_seconds
from bench.figures import Report, Sample
from devstack.browser.programs import Chromium, find_programs
from devstack.console import say
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.browser.webdriver import Session
    from devstack.pool import BrokerProcess

TITLE: Final = "Status page: time of a load, and CPU while nobody looks"
FEW: Final = 10
MANY: Final = 5_000
SHORT: Final = 500
CONNECTIONS: Final = 50
SETTLE_S: Final = 60.0
SHORT_SETTLE_S: Final = 5.0
LOADS: Final = 5
"""Loads of a side in a round; the median counts."""

PAUSE_S: Final = 0.5
"""Time between two loads: a broker spends a tenth of its time on pages at most."""

WINDOW_S: Final = 60.0
BUSY_TIMEOUT_S: Final = 30.0

_TIMING: Final = """
const [one] = performance.getEntriesByType('navigation');
return {load: one.loadEventEnd - one.startTime, server: one.responseStart - one.requestStart, bytes: one.transferSize,
  status: one.responseStatus, rows: [...document.querySelectorAll('table')].at(-1)?.querySelectorAll('tbody th').length};
"""


@dataclass(frozen=True, slots=True)
class Load:
    """Figures of a side in one round, each the median of its loads, in milliseconds.

    Attributes:
        browser: from the start of the navigation to the end of the page's load event.
        server: in the browser, from the request to the first byte.
        page: of `/` by a plain HTTP client, on a new connection, to its last byte.
        document: the same of `/status`.
        cpu: CPU of the broker per load in the browser.
    """

    browser: float
    server: float
    page: float
    document: float
    cpu: float


def _visit(page: Session, engine: BrokerProcess, rows: int) -> dict[str, Any]:
    """Load the page in the browser; wait while the broker is busy with pages."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        page.open(f"{engine.http_url}/")
        found: dict[str, Any] = page.run(_TIMING)
        if found["status"] == http.HTTPStatus.OK and found["rows"] == rows:
            return found
        if time.monotonic() > deadline:
            raise DevstackError(
                f"the page has status {found['status']} and {found['rows']} rows, and should have {rows}"
            )
        time.sleep(1)


def _request_ms(engine: BrokerProcess, path: str) -> float:
    """Return the time of a request; wait while the broker is busy with pages."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        connection = http.client.HTTPConnection(urlsplit(engine.http_url).netloc, timeout=BUSY_TIMEOUT_S)
        begin = time.perf_counter()
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            took = time.perf_counter() - begin
        finally:
            connection.close()
        if response.status == http.HTTPStatus.OK:
            return took * 1000
        if time.monotonic() > deadline:
            raise DevstackError(f"{path} has status {response.status} after {BUSY_TIMEOUT_S:g} s")
        time.sleep(1)


def _measure(page: Session, engine: BrokerProcess, rows: int) -> Load:
    loads, cpu = [], []
    for _ in range(LOADS):
        time.sleep(PAUSE_S)
        before = cpu_seconds([engine.process.pid])
        loads.append(_visit(page, engine, rows))
        cpu.append((cpu_seconds([engine.process.pid]) - before) * 1000)
    pages: list[float] = []
    documents: list[float] = []
    for _ in range(LOADS):
        for times, path in ((pages, "/"), (documents, "/status")):
            time.sleep(PAUSE_S)
            times.append(_request_ms(engine, path))
    return Load(
        _median(one["load"] for one in loads),
        _median(one["server"] for one in loads),
        _median(pages),
        _median(documents),
        _median(cpu),
    )


def _median(values: Iterable[float]) -> float:
    return Sample(tuple(values)).median


def _windows(engines: dict[str, BrokerProcess], plan: Plan, seconds: float) -> dict[str, tuple[float, ...]]:
    """Return the CPU of each broker as a share of a core, one for each window; all brokers have the same windows."""
    shares: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(plan.rounds):
        begin = time.monotonic()
        before = {name: cpu_seconds([engine.process.pid]) for name, engine in engines.items()}
        time.sleep(seconds)
        took = time.monotonic() - begin
        for name, engine in engines.items():
            shares[name].append((cpu_seconds([engine.process.pid]) - before[name]) / took)
    return {name: tuple(values) for name, values in shares.items()}


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure both sides by turns, and the quiet brokers before and after."""
    find_programs()  # before the topics, which take long
    many = SHORT if plan.short else MANY
    window_s = plan.seconds if plan.short else WINDOW_S
    base = cluster.topic_name("page")
    say(f"{many:,} topics are created")
    topics = cluster.create_topics(f"{base}-#", many)
    with ExitStack() as open_:
        engines = {name: open_.enter_context(cluster.engine(f"{base}-.*")) for name in ("few", "looked", "quiet")}
        for name, engine in engines.items():
            count = FEW if name == "few" else many
            readers = LoadClient(
                "consume",
                name,
                broker=engine.address,
                topic=f"{base}-#",
                consumers=count,
                connections=min(CONNECTIONS, count),
                subscription=f"{name}-#",
            )
            open_.enter_context(readers)
            say(f"{count:,} readers at a broker after {readers.ready_s:.0f} s")
        time.sleep(SHORT_SETTLE_S if plan.short else SETTLE_S)
        both = {name: engines[name] for name in ("looked", "quiet")}
        before = _windows(both, plan, window_s)
        sides = {f"{FEW} topics": (engines["few"], FEW), f"{many:,} topics": (engines["looked"], 100)}
        loads: dict[str, list[Load]] = {name: [] for name in sides}
        with Chromium() as page:
            version = page.version
            page.resize(1200)
            for number in range(-1, plan.rounds):  # the first round warms up
                for name in plan.turns(number, list(sides)):
                    found = _measure(page, *sides[name])
                    if number >= 0:
                        loads[name].append(found)
        after = _windows(both, plan, window_s)
    cluster.delete_topics(topics)
    rows = tuple((name, *_cells(found)) for name, found in loads.items())
    columns = (
        "topics with a reader",
        "load in the browser, ms",
        "of it until the first byte, ms",
        "`/` by a plain client, ms",
        "`/status`, ms",
        "CPU of the broker per load, ms",
    )
    raw: list[dict[str, Any]] = [
        {"side": name, "round": number, **{key: getattr(one, key) for key in Load.__slots__}}
        for name, found in loads.items()
        for number, one in enumerate(found)
    ]
    raw += [{"cpu": when, **shares} for when, shares in (("before", before), ("after", after))]
    how = f"Chromium {version}, {plan.rounds} rounds of {LOADS} loads per side; CPU in windows of {window_s:g} s"
    return Report(columns, rows, notes=(quiet_table(before, after, many),), raw=raw, how=how)


def _cells(found: list[Load]) -> tuple[str, ...]:
    return tuple(Sample(tuple(getattr(one, key) for one in found)).text(".1f") for key in Load.__slots__)


def quiet_table(before: dict[str, tuple[float, ...]], after: dict[str, tuple[float, ...]], topics: int) -> str:
    """Return the table of the CPU while nobody looks, in milliseconds of CPU per minute.

    Args:
        before: share of a core by broker, `looked` and `quiet`, for each window before the loads.
        after: the same after the loads.
        topics: number of topics of each broker.
    """
    lines = [
        f"| CPU in ms per minute, {topics:,} topics, nobody looks | before the loads | after them |",
        "|---|---:|---:|",
    ]
    for name, label in (("looked", "broker whose page was loaded"), ("quiet", "broker that nobody ever looked at")):
        cells = (Sample(tuple(one * 60_000 for one in shares[name])).text(".0f") for shares in (before, after))
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)
