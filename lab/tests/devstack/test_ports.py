"""Ports that tests choose beside each other."""

import socket
import subprocess
import sys

import pytest

from devstack.common import ports
from devstack.errors import DevstackError

CHOOSE = "import sys; from devstack.common import ports; ports.FREE_PORTS = (int(sys.argv[1]), int(sys.argv[1]) + 2)"


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, tmp_path) -> int:
    """The first of two ports, which are all that there are, and both free."""
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path))
    first = ports.free_port() & ~1
    for descriptor in ports._kept:
        ports.os.close(descriptor)
    ports._kept.clear()
    monkeypatch.setattr(ports, "FREE_PORTS", (first, first + 2))
    monkeypatch.setattr(ports, "_TRIES", 2)
    return first


def of_another_process(first: int) -> subprocess.Popen[str]:
    """A process that has chosen a port of the two, and lives on."""
    program = f"{CHOOSE}; ports._TRIES = 2; print(ports.free_port(), flush=True); sys.stdin.read()"
    return subprocess.Popen(
        [sys.executable, "-c", program, str(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_no_port_is_given_to_two_processes(pair: int) -> None:
    with of_another_process(pair) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        mine = ports.free_port()
        assert {mine, theirs} == {pair, pair + 1}
        with pytest.raises(DevstackError, match="no port is free"):
            ports.free_port()
    assert ports.free_port() == theirs, "that process has ended"


def test_a_port_in_use_is_not_given(pair: int) -> None:
    with socket.create_server(("127.0.0.1", pair)):
        assert ports.free_port() == pair + 1


def test_a_process_keeps_only_its_last_ports(pair: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "KEPT", 1)
    found = [ports.free_port() for _ in range(6)]
    assert {found[index] for index in (0, 2, 4)} != {found[index] for index in (1, 3, 5)}
    assert len(ports._kept) == 1
