"""The cursors of a binding change between Local and Owner while a consumer is connected: no backlog is skipped."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pulsar as pulsar_lib
import pytest
from pulsar import InitialPosition

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import consumers_at, quiet_client
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.subscriptions_tool import COMMAND, connections_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

RECEIVE_MS = 60_000
LIMIT_S = 120
GUARD = "pulsar-readonly-guard-"
CLOSED = "reason=the keeper of the subscription's cursor has changed"


class Scene:
    """A pool of two brokers, with one binding."""

    def __init__(self, pulsar: Endpoints, make_pool: Callable[..., Pool], file: Path, topic: str) -> None:
        self.pulsar, self.file, self.topic = pulsar, file, topic
        self.revision = 0
        self._bind("Local")
        self.pool = make_pool(2, "--bindings", str(file), "--cursor-partitions", "4")

    def _bind(self, cursors: str) -> None:
        self.revision += 1
        draft = self.file.with_suffix(".new")
        bindings = [{"name": "b", "topics": [self.topic], "cursors": cursors}]
        draft.write_text(json.dumps({"revision": f"r{self.revision}", "bindings": bindings}))  # JSON is YAML
        draft.replace(self.file)

    def _logs(self) -> list[str]:
        return [broker.log.read_text() for broker in self.pool.brokers]

    def change(self, cursors: str) -> None:
        """Change the keeper, and wait until the connected consumer is closed."""
        closed = sum(log.count(CLOSED) for log in self._logs())
        assert any(consumers_at(broker, self.topic) for broker in self.pool.brokers)
        self._bind(cursors)
        wait_until(lambda: all(f"revision=r{self.revision} " in log for log in self._logs()), LIMIT_S)
        wait_until(lambda: sum(log.count(CLOSED) for log in self._logs()) > closed, LIMIT_S)

    def refusals(self, name: str) -> set[str]:
        """Why brokers refuse an Exclusive consumer that would begin at the end of the topic."""
        found = set()
        for broker in self.pool.brokers:
            with RawClient(broker.url) as client, pytest.raises(RefusedError) as refused:
                client.subscribe(self.topic, name)
            _, code, message = refused.value.args
            assert code == "NotAllowedError"
            found.add(message)
        return found

    def run(self, word: str, name: str, *options: str) -> None:
        """Run `pulsar-readonly subscriptions`."""
        connections = connections_of(self.pulsar, self.pool.name, self.pool.url)
        command = [*COMMAND, word, self.topic, name, *options, *connections]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr.decode()


def take(consumer: pulsar_lib.Consumer, count: int) -> list[int]:
    """Receive different numbers, and ack them. Those that were in the client's queue when it was closed come twice."""
    found: list[int] = []
    while len(found) < count:
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        found += [number for number in numbers_of([message]) if number not in found]
    return found


def test_a_subscription_whose_keeper_changes_skips_nothing(
    pulsar: Endpoints,
    own_pool: Callable[..., Pool],
    pulsar_client: pulsar_lib.Client,
    admin: PulsarAdmin,
    topic: str,
    tmp_path: Path,
) -> None:
    scene = Scene(pulsar, own_pool, tmp_path / "bindings.yaml", topic)

    def at_owner() -> set[str]:
        stats = admin.stats(topic)["subscriptions"]
        return {name for name, one in stats.items() if one["isDurable"] and not name.startswith(GUARD)}

    publish_numbers(pulsar_client, topic, range(110), batching_enabled=False)
    client = quiet_client(scene.pool.url)
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest, receiver_queue_size=5)
    assert take(consumer, 10) == list(range(10))
    client.subscribe(topic, "other", initial_position=InitialPosition.Earliest).close()

    scene.change("Owner")
    for name in ("s", "other"):
        for text in scene.refusals(name):
            assert f"has a local cursor of subscription {name} of {topic}" in text
            assert f"pulsar-readonly subscriptions export {topic} {name}" in text
    assert at_owner() == set()
    scene.run("export", "s")  # while its client tries again
    scene.run("seek", "other", "--to", "latest")
    scene.run("delete", "other")
    assert take(consumer, 50) == list(range(10, 60))
    client.subscribe(topic, "other").close()
    wait_until(lambda: at_owner() == {"s", "other"}, LIMIT_S)

    scene.change("Local")
    for text in scene.refusals("s"):
        assert f"pulsar-readonly subscriptions import {topic} s" in text
    scene.run("import", "s")
    assert take(consumer, 50) == list(range(60, 110))
    assert at_owner() == {"other"}
    client.close()
