from __future__ import annotations

import pytest
from readonly_engine.broker.pool.client_versions import restarts_sequence, supports_assigned_broker


@pytest.mark.parametrize(
    ("version", "goes"),
    [
        ("Pulsar-Java-v4.0.8", True),
        ("Pulsar-Java-v3.2.0", True),
        ("Pulsar-Java-v3.1.3", False),
        ("Pulsar-Java-v2.11.4-SNAPSHOT", False),
        ("Pulsar-CPP-v3.7.1", True),
        ("Pulsar-CPP-v3.4.2", False),
        ("Pulsar-CPP-v3.5.0-rc-1", True),
        ("Pulsar Go 0.13.1", True),
        ("Pulsar Go 0.12.0", False),
        ("pulsar-rs-v6.3.0", False),
        ("Pulsar-CPP-v", False),
        ("", False),
    ],
)
def test_which_clients_go_where_they_are_told(version, goes):
    assert supports_assigned_broker(version) is goes


@pytest.mark.parametrize(
    ("version", "restarts"),
    [
        ("Pulsar-CPP-v3.7.1", True),
        ("Pulsar-CPP-v3.4.2", True),
        ("Pulsar-Java-v4.0.8", False),
        ("Pulsar Go 0.13.1", False),
    ],
)
def test_which_clients_restart_their_sequence(version, restarts):
    assert restarts_sequence(version) is restarts
