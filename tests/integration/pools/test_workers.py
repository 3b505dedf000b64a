"""`serve --workers 2`: two processes that are brokers of the pool, share a port, and are looked after by a third."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pulsar as pulsar_lib
import pytest
from readonly_engine.config.settings import PORT_OFFSET

from devstack.common.ports import free_port
from devstack.pool import BrokerProcess
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import TESTS, quiet_client
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

WAIT_S = 60.0
MESSAGES = 200


def ports_with_room() -> int:
    """A port that is free, as are those of two workers after it."""
    while True:
        port = free_port()
        try:
            for other in (port + PORT_OFFSET, port + 2 * PORT_OFFSET):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", other))
        except (OSError, OverflowError):
            continue
        return port


def asked(port: int, path: str) -> tuple[int, str]:
    """The status and text of an HTTP answer; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def children_of(parent: BrokerProcess) -> set[int]:
    """The workers' processes."""
    pid = parent.process.pid
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@contextmanager
def two_workers(pulsar: Endpoints, tmp_path: Path, *others: str) -> Iterator[BrokerProcess]:
    options = ("--topics", TESTS, "--pool", uuid.uuid4().hex, "--workers", "2", *others)
    parent = BrokerProcess(pulsar, tmp_path / "workers.log", options, (ports_with_room(), ports_with_room()))
    try:
        parent.wait_ready()
        yield parent
    finally:
        if parent.process.poll() is None:
            parent.kill()
        for index in (1, 2):  # they end with what started them
            port = parent.http_port + index * PORT_OFFSET
        wait_until(lambda port=port: asked(port, "/healthz")[0] == 0, 60, "a worker lives on")  # type: ignore[misc]


@pytest.fixture
def workers(pulsar: Endpoints, tmp_path: Path) -> Iterator[BrokerProcess]:
    """Two workers of a pool of their own, and what looks after them."""
    with two_workers(pulsar, tmp_path) as parent:
        yield parent


def served(parent: BrokerProcess) -> dict[str, float]:
    """How many messages each worker has served, as the merged metrics say."""
    _, text = asked(parent.http_port, "/metrics")
    counts = {"0": 0.0, "1": 0.0}
    for line in text.splitlines():
        if line.startswith("pulsar_readonly_dispatched_messages_total{"):
            counts[line.partition('worker="')[2][0]] += float(line.rpartition(" ")[2])
    return counts


def read_all(client: pulsar_lib.Client, topics: list[str]) -> dict[str, list[int]]:
    """All messages of all topics, by readers that are there together."""
    readers = {topic: client.create_reader(topic, pulsar_lib.MessageId.earliest) for topic in topics}
    found = {
        topic: [int(reader.read_next(60_000).data()) for _ in range(MESSAGES)] for topic, reader in readers.items()
    }
    for reader in readers.values():
        reader.close()
    return found


def test_both_workers_serve_and_one_that_is_killed_comes_back(
    workers: BrokerProcess, pulsar_client: pulsar_lib.Client, topic: str
) -> None:
    topics = [f"{topic}-{number}" for number in range(6)]
    for name in topics:
        producer = pulsar_client.create_producer(name)
        for number in range(MESSAGES):
            producer.send_async(b"%d" % number, lambda *_: None)
        producer.flush()
    with closing(quiet_client(workers.url, operation_timeout_seconds=90)) as client:
        everything = {name: list(range(MESSAGES)) for name in topics}
        assert read_all(client, topics) == everything
        assert min(served(workers).values()) > 0, "one of the workers has served nothing"
        before = children_of(workers)
        assert len(before) == 2
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        assert read_all(client, topics) == everything
        wait_until(
            lambda: asked(workers.http_port, "/readyz")[0] == 200, 60, "the worker that was killed does not come back"
        )
        assert len(children_of(workers) - before) == 1
    assert workers.stop() == 0


def test_a_worker_that_hangs_is_named_and_replaced(workers: BrokerProcess) -> None:
    before = children_of(workers)
    os.kill(min(before), signal.SIGSTOP)  # it keeps its ports, and ignores SIGTERM
    wait_until(lambda: "does not answer" in asked(workers.http_port, "/readyz")[1], 30, "the reason is not shown")
    wait_until(
        lambda: children_of(workers) != before and asked(workers.http_port, "/readyz")[0] == 200,
        120,
        "the worker that hung is not replaced",
    )
    assert len(children_of(workers) & before) == 1, "the other one went on"
    assert workers.stop() == 0


def test_workers_share_the_cursors_of_their_pool(
    pulsar: Endpoints, tmp_path: Path, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str
) -> None:
    names = [f"s{number}" for number in range(8)]
    with two_workers(pulsar, tmp_path, "--cursors", "local", "--cursor-partitions", "4") as parent:
        client = quiet_client(parent.url, operation_timeout_seconds=90)
        consumers = [client.subscribe(topic, name) for name in names]
        publish_numbers(pulsar_client, topic, range(10), batching_enabled=False)
        for consumer in consumers:
            got = [consumer.receive(20_000) for _ in range(10)]
            assert numbers_of(got) == list(range(10))
            for message in got[:6]:
                consumer.acknowledge(message)
        durable = [name for name, one in admin.stats(topic)["subscriptions"].items() if one["isDurable"]]
        assert durable
        assert all(name.startswith("pulsar-readonly-guard-") for name in durable)

        def stored() -> bool:
            stats = [json.loads(asked(parent.http_port + index * PORT_OFFSET, "/stats")[1]) for index in (1, 2)]
            assert all(one["localCursors"] for one in stats), "one of the workers has no partition"
            served = [stat["topics"].get(topic, {"subscriptions": {}})["subscriptions"] for stat in stats]
            backlogs = {name: one["msgBacklog"] for subscriptions in served for name, one in subscriptions.items()}
            # Clients send acks after a tenth of a second.
            return backlogs == dict.fromkeys(names, 4) and not any(
                one["unstored"] for stat in stats for one in stat["localCursors"]
            )

        wait_until(stored, 20)
        os.kill(min(children_of(parent)), signal.SIGKILL)
        for consumer in consumers:
            # Those of the other worker have them still unacked: it delivers them again when it is asked to.
            consumer.redeliver_unacknowledged_messages()
            got = {int(consumer.receive(60_000).data()) for _ in range(4)}
            assert got == {6, 7, 8, 9}
        client.close()
        assert parent.stop() == 0


def test_what_one_worker_answers_is_asked_of_one_worker(workers: BrokerProcess) -> None:
    status, text = asked(workers.http_port, "/stats")
    assert status == 404
    urls = json.loads(text)["workers"]
    assert urls == [f"http://127.0.0.1:{workers.http_port + n * PORT_OFFSET}/stats" for n in (1, 2)]
    with urllib.request.urlopen(urls[1], timeout=10) as response:
        assert len(json.load(response)["brokers"]) == 2


def test_a_store_that_cannot_be_reached_ends_all(pulsar: Endpoints) -> None:
    dead = free_port()
    listen, http = ports_with_room(), ports_with_room()
    command = [sys.executable, "-m", "readonly_engine.command", "serve", "--metadata-store-url", f"zk:127.0.0.1:{dead}"]
    command += [
        "--service-url",
        pulsar.writer_url,
        "--admin-url",
        pulsar.admin_url,
        "--topics",
        "orders",
        "--workers",
        "2",
    ]
    command += ["--listen", f"127.0.0.1:{listen}", "--http", f"127.0.0.1:{http}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 1
    assert "worker 0: --metadata-store-url: " in done.stderr


def test_the_status_page_lists_the_workers_and_top_shows_each(workers: BrokerProcess) -> None:
    page = workers.get("/")
    for index in (1, 2):
        assert f":{workers.http_port + index * PORT_OFFSET}/" in page
    command = [sys.executable, "-m", "readonly_engine.command", "top", "--once", "--output", "json", workers.http_url]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    assert [one["status"]["broker"]["worker"] for one in found["brokers"]] == [0, 1]
