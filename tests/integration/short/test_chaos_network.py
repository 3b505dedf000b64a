"""The network that `make -C lab chaos` breaks: losses one way and both, slow links, and nothing left behind."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import pytest

from longtests.chaos.net import Network

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]

PREFIX: Final = f"prtest{os.getpid()}"
_RECEIVE = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.bind((sys.argv[1], 5000)); s.settimeout(float(sys.argv[2])); print("listening", flush=True)
    try:
        print(s.recv(100).decode())
    except TimeoutError:
        print("nothing")
"""
_SEND = "import socket, sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'here', (sys.argv[1], 5000))"
_SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], 5001)) as s:
    print("listening", flush=True)
    c, _ = s.accept(); n = 0
    while d := c.recv(1 << 16): n += len(d)
    print(n)
"""
_PUSH = "import socket, sys; s = socket.create_connection((sys.argv[1], 5001)); s.sendall(bytes(65536)); s.close()"


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(("a", "b"), PREFIX)
    made.make()
    yield made
    made.remove()
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert PREFIX not in listed


def python(network: Network, node: str, code: str, *words: str) -> subprocess.Popen[str]:
    command = [*network.site(node).launcher, sys.executable, "-c", code, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def arrives(network: Network, sender: str, receiver: str, seconds: float = 0.5) -> bool:
    address = network.addresses[receiver]
    with python(network, receiver, _RECEIVE, address, str(seconds)) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline() == "listening\n"
        with python(network, sender, _SEND, address) as sending:
            sending.wait(10)
        return listening.stdout.readline() == "here\n"


def test_packets_are_lost_one_way_or_both_and_come_again(network: Network) -> None:
    assert arrives(network, "a", "b", 5)
    network.drop("b", "a")
    assert not arrives(network, "a", "b")
    assert arrives(network, "b", "a", 5), "the other way is open"
    network.drop("a", "b")
    assert not arrives(network, "b", "a")
    network.drop("b", "a", undo=True)
    assert arrives(network, "a", "b", 5)
    network.mend()
    assert arrives(network, "b", "a", 5)


def push(network: Network) -> float:
    """Seconds that 64 KiB take from a to b."""
    with python(network, "b", _SERVE, network.addresses["b"]) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "listening\n"
        begin = time.monotonic()
        with python(network, "a", _PUSH, network.addresses["b"]) as pushing:
            assert pushing.wait(60) == 0
        assert serving.stdout.readline() == "65536\n"
        return time.monotonic() - begin


def test_a_slow_link_is_slow_until_it_is_mended(network: Network) -> None:
    network.slow("a")
    assert push(network) > 1.0, "64 KiB at 256 kbit/s, less the burst"
    network.slow("a", undo=True)
    assert push(network) < 1.0


def test_what_a_killed_run_has_left_is_ended_and_removed(network: Network) -> None:
    with python(network, "a", "import time; print('here', flush=True); time.sleep(600)") as left:
        assert left.stdout is not None
        assert left.stdout.readline() == "here\n", "it is in its namespace now"
        network.make()
        try:
            assert left.wait(10) == -9
        finally:
            left.kill()
    assert arrives(network, "a", "b", 5)
