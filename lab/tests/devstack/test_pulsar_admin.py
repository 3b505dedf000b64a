"""Topic names become paths of the admin API; what cannot be reached is one clear error."""

import socket

import pytest

from devstack.pulsar.admin import AdminError, MessageId, PulsarAdmin, full_name, topic_path


@pytest.mark.parametrize(
    ("topic", "full", "path"),
    [
        ("t", "persistent://public/default/t", "/admin/v2/persistent/public/default/t"),
        ("a/b/t", "persistent://a/b/t", "/admin/v2/persistent/a/b/t"),
        ("persistent://a/b/c/d", "persistent://a/b/c/d", "/admin/v2/persistent/a/b/c%2Fd"),
        ("non-persistent://a/b/t x", "non-persistent://a/b/t x", "/admin/v2/non-persistent/a/b/t%20x"),
    ],
)
def test_names(topic: str, full: str, path: str) -> None:
    assert full_name(topic) == full
    assert topic_path(topic) == path


def test_positions_are_ordered() -> None:
    assert sorted([MessageId(2, 0), MessageId(1, 9), MessageId(1, 10)]) == [
        MessageId(1, 9),
        MessageId(1, 10),
        MessageId(2, 0),
    ]


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(AdminError) as refused:
        PulsarAdmin(f"http://127.0.0.1:{port}", timeout=2.0).version()
    assert refused.value.status == 0
    assert f"GET http://127.0.0.1:{port}/admin/v2/brokers/version: no answer" in str(refused.value)
