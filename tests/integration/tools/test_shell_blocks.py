"""Blocks of commands in the documentation, run as they are on a real Pulsar: tests/shell_blocks/registry.py."""

import base64
import contextlib
import json
import re
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pulsar as pulsar_lib
import pytest
import yaml

from devstack.common.ports import free_port
from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.distribution import BASE_VERSION, ensure_distribution
from devstack.pulsar.spec import DEFAULT_METADATA, OXIA
from devstack.pulsar.status import Endpoints
from tests.integration.conftest import SECURE
from tests.shell_blocks.blocks import of_page
from tests.shell_blocks.pulsar_tools import on_pages
from tests.shell_blocks.running import Shell, find
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import quiet_client
from tests.support.waiting import wait_until
from tests.support.yaml_documents import load_yaml

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        SECURE or DEFAULT_METADATA == OXIA, reason="the pages have the three addresses of a plain cluster only"
    ),
]

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

    def make(programs: Mapping[str, Sequence[str]] | None = None, /, **replaced: str) -> Shell:
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
        made = Shell(folder, {"kubectl": EXEC, **(programs or {})}, names)
        options = {
            "metadata-store-url": pulsar.metadata_store,
            "service-url": pulsar.writer_url,
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
    for begin in ("pulsar-readonly doctor --config", "pulsar-readonly doctor --metadata-store-url", "kubectl exec POD"):
        # a check that fails makes the command end with status 2
        assert "service URL" in made.run(find("how-to/check-installation.md", begin))


def test_doctor_before_a_pool_is_added(shell, published: str) -> None:
    shown = shell().run(find("how-to/adopt.md", "pulsar-readonly doctor"))
    assert "topic owner" in shown


@pytest.fixture(scope="session")
def pulsar_home() -> Path:
    """Folder of a stock distribution, with Pulsar's own tools."""
    return ensure_distribution(BASE_VERSION)


@pytest.fixture
def pulsar_admin(pulsar_home: Path, pulsar: Endpoints) -> dict[str, tuple[str, ...]]:
    """The program `pulsar-admin` of the cluster."""
    return {"pulsar-admin": (str(pulsar_home / "bin" / "pulsar-admin"), "--admin-url", pulsar.admin_url)}


@pytest.mark.parametrize("one", sorted(on_pages()), ids=lambda one: " ".join(one.command))
def test_the_commands_of_pulsars_tools_exist(pulsar_home: Path, one) -> None:
    command = [str(pulsar_home / "bin" / one.tool), *one.command, "--help"]
    # `pulsar` has no --help below `tokens`: it prints the usage of the command, because a required option is missing, and fails
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    shown = done.stdout + done.stderr
    assert re.search(rf"Usage: .*\b{' '.join(one.command)} ", shown), shown
    assert [option for option in one.options if option not in shown] == []


def test_the_commands_of_pulsar_in_the_guide(shell, pulsar_home: Path, pulsar_admin, tmp_path: Path) -> None:
    page = "how-to/adopt.md"
    key = tmp_path / "secret.key"
    tool = str(pulsar_home / "bin" / "pulsar")
    subprocess.run([tool, "tokens", "create-secret-key", "--output", str(key)], check=True, timeout=60)
    # the tool changes to its own folder, so the key has its full path
    made = shell(pulsar_admin, **{"bin/pulsar tokens": f"{tool} tokens", "secret.key": str(key)})
    assert "bookkeeperExplicitLacIntervalInMills" in made.run(find(page, "pulsar-admin brokers"))
    made.run(find(page, "bin/pulsar tokens"))
    _, payload, _ = (made.folder / "pool-reader.jwt").read_text().strip().split(".")
    assert json.loads(base64.urlsafe_b64decode(payload + "==")) == {"sub": "pool-reader"}


def last_counts(shown: str) -> dict[str, int]:
    """The counts of the one partition that compare.py printed."""
    (line,) = [line for line in shown.splitlines() if "owner=" in line]
    return {name: int(value) for name, _, value in (one.partition("=") for one in line.partition(": ")[2].split(", "))}


SAME = {"lost": 0, "extra": 0, "twice": 0, "different": 0, "out_of_order": 0}


def test_the_comparison_of_the_guide(
    shell, pulsar_admin, pool: Pool, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str
) -> None:
    page = "how-to/adopt.md"
    made = shell(pulsar_admin, **{"pulsar://pool:6650": pool.url})
    compared = find(page, "python examples")
    publish_numbers(pulsar_client, topic, range(250))
    shown = made.run(compared)
    assert last_counts(shown) == {"owner": 250, "pool": 250, **SAME}
    assert shown.splitlines()[-1] == "equal"
    assert pool_dispatched(pool, topic) >= 250

    publish_numbers(pulsar_client, topic, range(250, 290), batching_enabled=True)
    assert last_counts(made.run(compared)) == {"owner": 40, "pool": 40, **SAME}
    printed = made.run(find(page, "pulsar-admin topics stats"))
    stats = json.loads(printed[printed.index("{") :])  # its warnings come first, on the same stream
    assert {name: one["msgBacklog"] for name, one in stats["subscriptions"].items()} == {"canary": 0, "canary-owner": 0}

    # A message that another consumer took from the subscription of the canary is missing in the next comparison.
    publish_numbers(pulsar_client, topic, range(290, 300), batching_enabled=False)
    consumer = pulsar_client.subscribe(topic, "canary", receiver_queue_size=1)
    consumer.acknowledge(consumer.receive(20_000))
    consumer.close()
    with pytest.raises(AssertionError, match=r"owner=10, pool=9, lost=1, extra=0(.|\n)*not equal"):
        made.run(compared)

    made.run(find(page, "pulsar-admin topics unsubscribe"))
    assert not {"canary", "canary-owner"} & set(admin.subscriptions(topic))


def pool_dispatched(pool: Pool, topic: str) -> int:
    """Messages of a topic that the brokers of a pool have dispatched, to consumers that have left too."""
    lines = [line for broker in pool.brokers for line in broker.get("/metrics").splitlines()]
    series = [one for one in lines if one.startswith("pulsar_readonly_dispatched_messages_total{") and topic in one]
    return sum(int(float(one.rpartition(" ")[2])) for one in series)


def test_the_rollback_of_the_guide_without_kubernetes(
    shell, own_pool, pulsar_client: pulsar_lib.Client, topic: str, tmp_path: Path
) -> None:
    page = "how-to/adopt-bare-metal.md"
    bound, unbound = [
        block for block in of_page(page) if block.language == "yaml" and block.text.startswith("revision:")
    ]
    file = tmp_path / "bindings.yaml"
    file.write_text(bound.text.replace("persistent://public/default/orders", topic))
    pool = own_pool(2, "--bindings", str(file))
    made = shell(**{"pulsar://pool:6650": pool.url})
    compared = find("how-to/adopt.md", "python examples")
    publish_numbers(pulsar_client, topic, range(100))
    assert last_counts(made.run(compared)) == {"owner": 100, "pool": 100, **SAME}
    served = pool_dispatched(pool, topic)
    assert served >= 100

    file.write_text(unbound.text)
    for broker in pool.brokers:
        wait_until(lambda broker=broker: json.loads(broker.get("/bindings"))["revision"] == "2", 20)
    publish_numbers(pulsar_client, topic, range(100, 200))
    assert last_counts(made.run(compared)) == {"owner": 100, "pool": 100, **SAME}
    assert pool_dispatched(pool, topic) <= served  # the owner has sent them


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
    options = load_yaml((made.folder / "serve.yaml").read_text())
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
