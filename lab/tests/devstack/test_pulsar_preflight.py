"""What the machine lacks is said before anything starts."""

import socket

import pytest

from devstack.errors import DevstackError
from devstack.pulsar import preflight


def test_available_memory() -> None:
    assert preflight.available_memory("MemTotal: 9 kB\nMemAvailable:    2048 kB\nX: 1 kB\n") == 2 << 20


def test_too_little_memory() -> None:
    preflight.check_memory(1)
    with pytest.raises(DevstackError, match=r"too little memory: 1073741824 MiB are needed"):
        preflight.check_memory(1 << 50)


def test_too_little_disk() -> None:
    with pytest.raises(DevstackError, match=r"too little disk at /data: 0\.0 GiB free") as refused:
        preflight.check_disk_numbers("/data", total=100, used=10, free=90)
    assert "--state" in refused.value.hint


@pytest.mark.parametrize(("used", "fits"), [(50, True), (97, True), (98, False)])
def test_a_nearly_full_disk_makes_bookies_read_only(used: int, *, fits: bool) -> None:
    gib = 1 << 30
    if fits:
        preflight.check_disk_numbers("/data", total=1000 * gib, used=used * 10 * gib, free=(100 - used) * 10 * gib)
    else:
        with pytest.raises(DevstackError, match="98% used"):
            preflight.check_disk_numbers("/data", total=1000 * gib, used=used * 10 * gib, free=20 * gib)


def test_a_port_in_use_is_named_with_its_purpose() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(DevstackError, match=f"port {port} for bookie-1 is in use") as refused:
            preflight.check_ports([("bookie-1", port)])
        assert "--base-port" in refused.value.hint
        with pytest.raises(DevstackError) as refused:
            preflight.check_ports([("bookie-1", port)], "stop it")
        assert refused.value.hint == "stop it"
    preflight.check_ports([("bookie-1", port)])
