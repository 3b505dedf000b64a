"""Stock clients wait at a waker, and get their messages from the broker that takes its address over."""

import base64
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pulsar as pulsar_lib
import pytest

from devstack.clients import CLIENTS, ClientVersion, command
from devstack.common.ports import free_port
from devstack.pool import BrokerProcess
from devstack.pulsar.status import Endpoints
from longtests.compat.process import Driver
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

MESSAGES = 10
WAITS_S = 60


def accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_stock_client_waits_at_the_waker_and_gets_its_messages_from_a_broker(
    pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str, tmp_path: Path, client: ClientVersion
) -> None:
    producer = pulsar_client.create_producer(topic)
    sent = [f"{number}".encode() for number in range(MESSAGES)]
    for one in sent:
        producer.send(one)
    port, ready = free_port(), free_port()
    arguments = ("wake", "--listen", f"127.0.0.1:{port}", "--ready", f"127.0.0.1:{ready}")
    waker = subprocess.Popen([sys.executable, "-m", "readonly_engine.command", *arguments], stderr=subprocess.DEVNULL)
    driver = Driver(command(client), tmp_path / "client.log")
    broker = None
    try:
        wait_until(lambda: accepts(ready), WAITS_S, "the waker is not ready")
        driver.call("client", **{"as": "client"}, url=f"pulsar://127.0.0.1:{port}")
        options = {"client": "client", "topic": topic, "subscription": "s", "initial": "earliest"}
        subscribing = driver.begin("consumer", **{"as": "consumer"}, **options)
        wait_until(lambda: not accepts(ready), WAITS_S, "the client does not wake the pool")
        assert not subscribing.done()
        waker.terminate()
        assert waker.wait(WAITS_S) == 0
        serve = ["--topics", topic, "--pool", uuid.uuid4().hex]
        broker = BrokerProcess(pulsar, tmp_path / "broker.log", serve, (port, free_port()))
        driver.result("consumer", subscribing, WAITS_S)
        found = driver.call("receive_many", on="consumer", count=MESSAGES, timeout_ms=WAITS_S * 1000, ack=True)
        assert [base64.b64decode(one["value"]) for one in found["messages"]] == sent
    finally:
        waker.kill()
        driver.close()
        if broker is not None:
            broker.kill()
