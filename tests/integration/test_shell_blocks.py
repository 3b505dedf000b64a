"""Blocks of commands in the how-to guides and tutorials, run as they are on a real Pulsar: tests/shell_blocks/registry.py."""

from __future__ import annotations

import contextlib
import time
import urllib.request
import uuid
from typing import TYPE_CHECKING

import pulsar as pulsar_lib
import pytest
import yaml

from devstack.common.ports import free_port
from devstack.pulsar.spec import DEFAULT_METADATA, OXIA
from tests.integration.conftest import SECURE
from tests.integration.fleet import quiet_client
from tests.shell_blocks.blocks import of_page
from tests.shell_blocks.running import Shell, find
from tests.support.messages import publish_numbers
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from devstack.pool import Pool
    from devstack.pulsar.admin import PulsarAdmin
    from devstack.pulsar.status import Endpoints

pytestmark = pytest.mark.skipif(
    SECURE or DEFAULT_METADATA == OXIA, reason="the pages have the three addresses of a plain cluster only"
)

ORDERS = 10
"""Messages of the tutorial."""

EARLIEST = pulsar_lib.InitialPosition.Earliest
READY_S = 60
STOP_S = 40
TOOK_S = 60

EXEC = ("sh", "-c", 'until [ "$1" = "--" ]; do shift; done; shift; exec "$@"', "kubectl")
"""`kubectl exec POD -- COMMAND` as the command on this machine."""


@pytest.fixture
def short(topic: str) -> str:
    """The topic by its short name."""
    return topic.rpartition("/")[2]


@pytest.fixture
def shell(tmp_path: Path, pulsar: Endpoints, short: str) -> Callable[..., Shell]:
    """Makes a shell in which the names of the pages are those of the cluster: further texts and what takes their place."""

    def make(**replaced: str) -> Shell:
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        names = {
            **replaced,
            "persistent://public/default/orders": f"persistent://public/default/{short}",
            "zk:zookeeper:2181": pulsar.metadata_store,
            "pulsar://broker:6650": pulsar.writer_url,
            "http://broker:8080": pulsar.admin_url,
            "/etc/pulsar-readonly/engine.yaml": "serve.yaml",
        }
        made = Shell(folder, {"kubectl": EXEC}, names)
        options = {
            "metadata-store": pulsar.metadata_store,
            "writer-url": pulsar.writer_url,
            "admin-url": pulsar.admin_url,
            "advertised-url": "pulsar://127.0.0.1:6650",
            "topics": [f"persistent://public/default/{short}"],
            "pool": f"pages-{uuid.uuid4().hex}",
        }
        (folder / "serve.yaml").write_text(yaml.safe_dump(options))
        (folder / "token").write_text("no-token-is-needed-here\n")
        return made

    return make


@pytest.fixture
def published(pulsar_client: pulsar_lib.Client, topic: str) -> str:
    """A topic with a few messages and a subscription."""
    pulsar_client.subscribe(topic, "billing", initial_position=EARLIEST).close()
    publish_numbers(pulsar_client, topic, range(ORDERS))
    return topic


def test_doctor(shell, admin: PulsarAdmin, published: str) -> None:
    namespace = f"public/pages-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    replaced = {"--topic orders": f"--topic {published}", "--namespace public/default": f"--namespace {namespace}"}
    made = shell(**replaced, **{"--pool NAME --pool-uid UID": ""})
    for begin in ("pulsar-readonly doctor --config", "pulsar-readonly doctor --metadata-store", "kubectl exec POD"):
        # a check that fails makes the command end with status 2
        assert "service URL" in made.run(find("how-to/check-installation.md", begin))


def test_doctor_before_a_pool_is_added(shell, published: str) -> None:
    shown = shell().run(find("how-to/adopt.md", "pulsar-readonly doctor"))
    assert "topic owner" in shown


def test_plan_of_a_cluster(shell, admin: PulsarAdmin, pulsar_client: pulsar_lib.Client, published: str) -> None:
    namespace = f"public/pages-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    publish_numbers(pulsar_client, f"persistent://{namespace}/bills", range(ORDERS))  # a plan needs a topic
    replaced = {
        "public/default": namespace,
        "--topic orders": f"--topic {published}",
        "--topic bills": f"--topic {published}",
    }
    shown = shell(**replaced).run(find("how-to/plan-size.md", "pulsar-readonly plan --admin-url"))
    assert shown.count("Does a pool suit this load?") == 3


def test_the_topic_tool(shell, published: str, short: str) -> None:
    replaced = {
        "show orders": f"show {short}",
        "read orders": f"read {short}",
        "--follow": f"--follow --count {ORDERS}",
    }
    made = shell(**replaced)
    shown = made.run(find("how-to/topic-tool.md", "export"))
    assert f"persistent://public/default/{short}" in shown
    assert "public/default" in shown
    shown = made.run(find("how-to/troubleshooting.md", "pulsar-readonly topic show"))
    assert shown.startswith(f"persistent://public/default/{short}\n")
    assert "billing" in shown


def test_local_subscriptions(
    shell, local_pool: Pool, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic, short
) -> None:
    made = shell(**{" orders": f" {short}", "pulsar://pool:6650": local_pool.url})
    options = yaml.safe_load((made.folder / "serve.yaml").read_text())
    (made.folder / "serve.yaml").write_text(yaml.safe_dump({**options, "pool": local_pool.name}))
    publish_numbers(pulsar_client, topic, range(ORDERS))
    with contextlib.closing(quiet_client(local_pool.url)) as client:
        consumer = client.subscribe(topic, "billing", initial_position=EARLIEST)
        consumer.acknowledge(consumer.receive(20_000))
        consumer.close()
    page = "how-to/local-subscriptions.md"
    shown = made.run(find(page, "pulsar-readonly subscriptions ls"))
    assert "billing" in shown
    assert '"msgBacklog"' in shown
    pulsar_client.subscribe(topic, "billing", initial_position=EARLIEST).close()
    made.run(find(page, "pulsar-readonly subscriptions import"))
    assert admin.stats(topic)["subscriptions"]["billing"]["msgBacklog"] > 0


@pytest.fixture
def tutorial(shell, pulsar: Endpoints, short: str, tmp_path: Path) -> Iterator[Shell]:
    """The shell of the tutorial, with its read-only broker."""
    port, http = free_port(), free_port()
    made = shell(
        **{
            "zk:127.0.0.1:16670": pulsar.metadata_store,
            "pulsar://127.0.0.1:16650": pulsar.writer_url,
            "http://127.0.0.1:16660": pulsar.admin_url,
            "127.0.0.1:6650": f"127.0.0.1:{port}",
            "127.0.0.1:8080": f"127.0.0.1:{http}",
            "default/orders": f"default/{short}",
            "show orders": f"show {short}",
            "read orders": f"read {short}",
        }
    )
    log = tmp_path / "serve.log"
    server = made.start(find("tutorials/process.md", ".venv/bin/pulsar-readonly serve"), log)
    try:
        wait_ready(server, f"http://127.0.0.1:{http}/readyz", log)
        yield made
    finally:
        server.terminate()
        assert server.wait(STOP_S) == 0, log.read_text()


def wait_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until the broker is ready."""
    deadline = time.monotonic() + READY_S
    while True:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"not ready after {READY_S} s: {log.read_text()}"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
            assert response.read() == b"ok\n"
            return
        time.sleep(0.1)


def write_python(made: Shell, page: str, name: str) -> None:
    """Save the one Python program of a page, with the names of the test."""
    (block,) = [block for block in of_page(page) if block.language == "python"]
    (made.folder / name).write_text(made.text(block))


def test_the_tutorial_of_a_process(tutorial: Shell, admin: PulsarAdmin, topic: str) -> None:
    page = "tutorials/process.md"
    write_python(tutorial, page, "orders.py")
    shown = tutorial.run(find(page, ".venv/bin/python"))
    assert [line for line in shown.splitlines() if line.startswith("order ")] == [
        f"order {number}" for number in range(ORDERS)
    ]
    shown = tutorial.run(find(page, "curl"))
    dispatched = [line for line in shown.splitlines() if line.startswith("pulsar_readonly_dispatched_messages_total{")]
    assert [float(line.rpartition(" ")[2]) for line in dispatched] == [ORDERS]
    # The topic's own counter has the copy that the owner pushes to the read-only broker, too.
    assert [line.rpartition(":")[2] for line in shown.splitlines() if line.startswith('"tutorial":{')] == ["0"]
    wait_until(lambda: admin.stats(topic)["subscriptions"]["tutorial"]["msgBacklog"] == 0, TOOK_S)
    stored = find(page, ".venv/bin/pulsar-readonly topic")
    wait_until(lambda: "tutorial " in tutorial.run(stored), TOOK_S)
    assert all(f"order {number}" in tutorial.run(stored) for number in (0, ORDERS - 1))


def test_the_tutorial_of_spark(tutorial: Shell, pulsar_client: pulsar_lib.Client, topic: str) -> None:
    page = "tutorials/spark.md"
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(ORDERS):
        producer.send(b"order %d" % number)
    write_python(tutorial, page, "frame.py")
    shown = tutorial.run(find(page, "PYSPARK_PYTHON"))
    assert "messageId" in shown
    assert "order 0" in shown
