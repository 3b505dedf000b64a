import pytest
from readonly_engine.broker.pool.client_versions import restarts_sequence, supports_assigned_broker


@pytest.mark.parametrize(
    ("version", "restarts", "goes_where_it_is_told"),
    [
        ("Pulsar-CPP-v3.7.1", True, True),
        ("Pulsar-CPP-v3.5.0-rc-1", True, True),
        ("Pulsar-CPP-v3.4.2", True, False),
        ("Pulsar-Java-v4.0.8", False, True),
        ("Pulsar-Java-v3.2.0", False, True),
        ("Pulsar-Java-v3.1.3", False, False),
        ("Pulsar Go 0.13.0", False, True),
        ("Pulsar Go 0.12.0", False, False),
        ("pulsar-rs-v6.3.0", False, False),
        ("Pulsar-CPP-v", True, False),
        ("", False, False),
    ],
)
def test_what_a_client_does_by_its_version(version, restarts, goes_where_it_is_told):
    assert restarts_sequence(version) is restarts
    assert supports_assigned_broker(version) is goes_where_it_is_told
