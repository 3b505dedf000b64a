"""`pulsar-readonly plan` on a real cluster: the load that its statistics have."""

import json
import subprocess
import sys
import time
from typing import Any

import pulsar
import pytest

from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.fleet import quiet_client

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

RATES_S = 65.0
"""Brokers update the rates of their statistics once a minute."""

MESSAGES_PER_SECOND = 50


def plan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "readonly_engine.command", "plan", "--output", "json", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_load_of_a_topic(txn_stack: PulsarCluster, topic: str) -> None:
    """Two Shared consumers and a Reader, while messages are published for longer than the interval of the rates."""
    endpoints = txn_stack.endpoints
    client = quiet_client(endpoints.writer_url)
    producer = client.create_producer(topic, batching_enabled=False)
    for _ in range(2):
        client.subscribe(topic, "work", consumer_type=pulsar.ConsumerType.Shared)
    client.create_reader(topic, pulsar.MessageId.latest)
    end = time.monotonic() + RATES_S * 2
    while time.monotonic() < end:
        producer.send_async(b"x" * 1000, lambda *_: None)
        time.sleep(1 / MESSAGES_PER_SECOND)
    done = plan("--admin-url", endpoints.admin_url, "--topic", topic)
    more = plan("--admin-url", endpoints.admin_url, "--topic", topic, "--readers", "100")
    client.close()
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["load"]["topics"] == 1
    assert 0.5 * MESSAGES_PER_SECOND < found["load"]["messages"] <= 1.1 * MESSAGES_PER_SECOND
    assert 1.9 < found["load"]["delivered"] / found["load"]["messages"] < 2.1
    assert found["load"]["connections"] == 1
    assert found["owners"]["consumers"]["expected"] == 3
    added = json.loads(more.stdout)
    assert added["owners"]["consumers"]["expected"] == 103
    assert added["pool"]["network_out"]["expected"] > found["pool"]["network_out"]["expected"]


def test_a_topic_that_does_not_exist_is_not_created(txn_stack: PulsarCluster, topic: str) -> None:
    done = plan("--admin-url", txn_stack.endpoints.admin_url, "--topic", topic)
    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert topic not in txn_stack.admin().topics()
