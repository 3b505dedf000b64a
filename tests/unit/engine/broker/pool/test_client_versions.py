import pytest
from readonly_engine.broker.pool.client_versions import restarts_sequence


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
