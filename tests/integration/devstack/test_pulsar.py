"""The devstack's Pulsar refuses ports that are in use and data of another shape, and renews data where nothing runs."""

from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec


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
