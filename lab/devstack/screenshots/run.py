"""Take the pictures: pages of a broker and of its pool, light and dark, and the terminal's screen."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devstack.browser.programs import Chromium, find_programs
from devstack.common.run import run, wait_until
from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec
from devstack.screenshots.picture import smaller
from devstack.screenshots.terminal import draw
from devstack.screenshots.traffic import PREFIX, STREAMS, Traffic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devstack.browser.webdriver import Session

FOLDER: Final = Path(__file__).resolve().parents[3] / "docs" / "pictures" / "screens"
BASE_PORT: Final = 15750
NAME: Final = "screenshots"
POOL: Final = "shop"
PLACES: Final = ("/eu-1/a", "/eu-1/b")
"""Locality of each broker of the pool."""

WIDTH: Final = 1200
HEIGHT: Final = 200
"""Of the window; a picture has the whole page."""

COLUMNS: Final = 118
"""Width of the terminal."""

SCHEMES: Final = ("light", "dark")
RUN_S: Final = 20.0
"""Time of traffic before the pictures."""

RATES_S: Final = 1.5
"""Time between two loads, the second of which shows rates."""

TRAFFIC_TIMEOUT_S: Final = 60.0


def take(folder: Path, base_port: int, texts: Mapping[str, Path], *, keep: bool) -> list[Path]:
    """Start servers and traffic, and write the pictures.

    Args:
        folder: where they go; pictures of the same names are replaced.
        base_port: first port of the Pulsar; those of the pool follow.
        texts: captured outputs of commands to draw besides, by command line.
        keep: whether the Pulsar keeps running.

    Returns:
        The files.

    Raises:
        DevstackError: a server, the browser or a picture fails.
    """
    find_programs()  # before the servers, which take long
    made = {f"{slug(command)}.svg": _captured(command, path).encode() for command, path in texts.items()}
    cluster = PulsarCluster(PulsarSpec(name=NAME, base_port=base_port, bookies=2, brokers=1, quick=True))
    cluster.up(renew=True)
    try:
        with tempfile.TemporaryDirectory(prefix="screenshots-") as logs:
            pool = Pool(cluster.endpoints, Path(logs), POOL, [])
            try:
                _start(pool, cluster, Path(logs), base_port)
                made |= _pictures(pool, cluster)
            finally:
                pool.close()
    finally:
        if not keep:
            cluster.down(purge=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (folder / name).write_bytes(content)
        say(f"{name}: {len(content):,} bytes")
    return [folder / name for name in made]


def slug(command: str) -> str:
    """Return the name of a command's picture: its words without options, as `kubectl-readonly-status`."""
    words: list[str] = []
    for word in command.split():
        if word.startswith(("-", "http")):
            break
        words.append(word)
    name = "-".join(words)
    if not name.replace("-", "").isalnum() or not name.isascii():
        raise DevstackError(f"{command!r} is no command line: expected words, as in 'kubectl readonly status'")
    return name


def _captured(command: str, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DevstackError(f"--text {path}: {error}", "give a file with the command's output as UTF-8") from error
    return draw(command, text.splitlines())


def _start(pool: Pool, cluster: PulsarCluster, logs: Path, base_port: int) -> None:
    """Start the brokers, each with its locality and with ports that are the same in each run."""
    for number, place in enumerate(PLACES):
        options = ["--pool", POOL, "--pool-uid", "5f0c", "--locality", place, "--topics", f"{PREFIX}.*"]
        ports = (base_port + 60 + number, base_port + 70 + number)
        pool.brokers.append(BrokerProcess(cluster.endpoints, logs / f"{number}.log", options, ports))
    for broker in pool.brokers:
        broker.wait_ready()
    pool.wait_members(len(pool.brokers))


def _pictures(pool: Pool, cluster: PulsarCluster) -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    with Traffic(cluster.endpoints.writer_url, [broker.url for broker in pool.brokers]), Chromium() as page:
        with step(f"traffic for {RUN_S:g} s"):
            time.sleep(RUN_S)
            wait_until(lambda: _complete(pool), TRAFFIC_TIMEOUT_S, "the pool has figures of all topics")
        first = max(pool.brokers, key=lambda one: len(_status(one)["topics"]))
        page.resize(WIDTH, HEIGHT)
        for path, name, schemes in (
            ("/", "status-page", SCHEMES),
            (f"/?topic={STREAMS[0].topic}", "status-page-topic", SCHEMES[:1]),
            ("/pool", "pool-page", SCHEMES),
        ):
            page.open(first.http_url + path)
            time.sleep(RATES_S)
            for scheme in schemes:
                page.prefer(color_scheme=scheme)
                page.open(first.http_url + path)
                made[f"{name}-{scheme}.png"] = smaller(page.screenshot())
            check(page, name)
        made["pulsar-readonly-top.svg"] = _top(pool).encode()
    return made


def check(page: Session, name: str) -> None:
    """Refuse a picture of a page that is too wide or an error.

    Raises:
        DevstackError: it is.
    """
    found = page.run("return [document.documentElement.scrollWidth, document.querySelectorAll('tbody th').length]")
    if found[0] > WIDTH or not found[1]:
        raise DevstackError(f"{name}: the page is {found[0]} px wide and lists {found[1]} rows")


def _status(broker: BrokerProcess) -> Any:
    return json.loads(broker.get("/status"))


def _complete(pool: Pool) -> bool:
    """Return whether the brokers together serve all topics, and one has found the consumers at the owner."""
    states = [_status(one) for one in pool.brokers]
    served = {topic["name"] for one in states for topic in one["topics"] if topic["tail"] != "relayed"}
    return served >= {stream.topic for stream in STREAMS} and any(one["reasons"] for one in states)


def _top(pool: Pool) -> str:
    """Return the screen of `pulsar-readonly top` as a picture, by its real output."""
    urls = [one.http_url for one in pool.brokers]
    command = [sys.executable, "-m", "readonly_engine.command", "top", "--once", *urls]
    text = run(["env", f"COLUMNS={COLUMNS}", *command], what="the screen of top", timeout=60)
    return draw(f"pulsar-readonly top --once {' '.join(urls)}", text.splitlines())
