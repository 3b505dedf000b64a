"""The devstack's Pulsar serves a stock client, survives the loss of its parts, and comes up again quickly."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pulsar as pulsar_lib
import pytest

from devstack.errors import DevstackError
from devstack.pulsar.admin import AdminError, MessageId, PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec

RECEIVE_MS = 15_000


def produce(client: pulsar_lib.Client, topic: str, numbers: range) -> list[pulsar_lib.MessageId]:
    producer = client.create_producer(topic)
    ids = [producer.send(str(number).encode()) for number in numbers]
    producer.close()
    return ids


def consume(client: pulsar_lib.Client, topic: str, subscription: str, count: int) -> list[int]:
    consumer = client.subscribe(topic, subscription, initial_position=pulsar_lib.InitialPosition.Earliest)
    got = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        got.append(int(message.data()))
    consumer.close()
    return got


def test_topics_get_several_ledgers_by_size_and_by_unload(
    pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str
) -> None:
    full = int(admin.runtime_configuration()["managedLedgerMaxEntriesPerLedger"])
    admin.create_topic(topic)
    admin.create_subscription(topic, "held")
    ids = produce(pulsar_client, topic, range(full + 5))
    admin.unload(topic)
    ids += produce(pulsar_client, topic, range(full + 5, full + 10))
    ledgers = sorted({message_id.ledger_id() for message_id in ids})
    assert len(ledgers) == 3
    told = admin.internal_stats(topic)["ledgers"]
    assert {ledger["ledgerId"]: ledger["entries"] for ledger in told[:2]} == {ledgers[0]: full, ledgers[1]: 5}
    assert admin.last_message_id(topic) == MessageId(ids[-1].ledger_id(), ids[-1].entry_id())
    assert admin.stats(topic)["subscriptions"]["held"]["msgBacklog"] == full + 10
    assert consume(pulsar_client, topic, "held", full + 10) == list(range(full + 10))


def test_any_brokers_admin_api_reaches_a_topics_owner(pulsar_stack: PulsarCluster, topic: str) -> None:
    for i in range(pulsar_stack.spec.brokers):
        admin = pulsar_stack.admin(i)
        name = f"{topic}-{i}"
        admin.create_topic(name)
        owners = {pulsar_stack.admin(j).lookup(name) for j in range(pulsar_stack.spec.brokers)}
        assert len(owners) == 1
        for j in range(pulsar_stack.spec.brokers):
            other = pulsar_stack.admin(j)
            other.create_subscription(name, f"sub/{j}")
            assert other.stats(name)["subscriptions"][f"sub/{j}"]["msgBacklog"] == 0
        assert sorted(admin.subscriptions(name)) == [f"sub/{j}" for j in range(pulsar_stack.spec.brokers)]
        admin.delete_topic(name)
        with pytest.raises(AdminError) as gone:
            admin.stats(name)
        assert gone.value.status == 404


def test_a_second_up_takes_seconds_and_starts_nothing(pulsar_stack: PulsarCluster) -> None:
    before = [server.pid for server in pulsar_stack.status().servers]
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "devstack", "pulsar", "up", "--state", str(pulsar_stack.state.root), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    took = time.monotonic() - begin
    told = json.loads(done.stdout)
    assert told["healthy"]
    assert told["endpoints"]["writer_url"] == pulsar_stack.endpoints.writer_url
    assert [server["pid"] for server in told["servers"]] == before
    assert took < 20.0, "a start of servers takes longer"


def test_a_port_in_use_is_one_clear_error(pulsar_stack: PulsarCluster, tmp_path: Path) -> None:
    twin = PulsarCluster(PulsarSpec(name="twin", base_port=pulsar_stack.spec.base_port), tmp_path / "twin")
    with pytest.raises(DevstackError) as refused:
        twin.up()
    assert f"port {pulsar_stack.spec.zookeeper_port} for {twin.metadata_server} is in use" in str(refused.value)
    assert "--base-port" in refused.value.hint
    assert not any(server.pid for server in twin.status().servers)


def test_data_of_another_shape_is_refused(pulsar_stack: PulsarCluster) -> None:
    other = PulsarCluster(PulsarSpec(name=pulsar_stack.spec.name, base_port=18650), pulsar_stack.state.root)
    with pytest.raises(DevstackError, match=r"--base-port 18650: the stack in .* was made with"):
        other.up()


@pytest.mark.nightly
def test_a_stack_that_is_renewed_loses_its_data_only_where_nothing_runs(
    pulsar_stack: PulsarCluster, topic: str, tmp_path: Path
) -> None:
    pulsar_stack.admin().create_topic(topic)
    pulsar_stack.admin().create_subscription(topic, "s")
    assert pulsar_stack.up(renew=True) == pulsar_stack.endpoints
    assert "s" in pulsar_stack.admin().stats(topic)["subscriptions"]
    twin = PulsarCluster(PulsarSpec(name="twin", base_port=pulsar_stack.spec.base_port), tmp_path / "twin")
    data = tmp_path / "twin" / "data" / "zookeeper"
    data.mkdir(parents=True)
    with pytest.raises(DevstackError, match="in use"):
        twin.up()
    assert data.exists()
    with pytest.raises(DevstackError, match="in use"):
        twin.up(renew=True)
    assert not data.exists()
