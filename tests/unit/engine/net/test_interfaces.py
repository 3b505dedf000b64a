"""A server that listens on all interfaces is reached by IPv4 and by IPv6, where the machine has it."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from readonly_engine.config.kinds import Address
from readonly_engine.net import interfaces
from readonly_engine.net.interfaces import ALL_INTERFACES, LOOPBACK, local_hosts


def has_loopback(family, host) -> bool:
    try:
        with socket.socket(family) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def test_all_interfaces_are_those_of_both_families(monkeypatch):
    monkeypatch.setattr(interfaces, "_has_ipv6", lambda: True)
    assert local_hosts(ALL_INTERFACES) == ["0.0.0.0", "::"]
    monkeypatch.setattr(interfaces, "_has_ipv6", lambda: False)
    assert local_hosts(ALL_INTERFACES) == ["0.0.0.0"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::", "broker"])
def test_a_host_that_is_named_is_the_only_one(host):
    assert local_hosts(host) == [host]


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_a_kernel_without_ipv6_has_ipv4_alone(monkeypatch, number):
    def refuse(*_):
        raise OSError(number, "no IPv6")

    monkeypatch.setattr(interfaces.socket, "socket", refuse)
    assert local_hosts(ALL_INTERFACES) == ["0.0.0.0"]


def test_other_errors_are_not_taken_for_a_kernel_without_ipv6(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(interfaces.socket, "socket", refuse)
    with pytest.raises(OSError, match="too many"):
        local_hosts(ALL_INTERFACES)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_clients_of_either_family_connect(family, host):
    if not has_loopback(family, host):
        pytest.skip(f"this machine has no {host}")
    with socket.socket(socket.AF_INET) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    async def peer() -> str:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, local_hosts(ALL_INTERFACES), port)
        try:
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return writer.get_extra_info("sockname")[0]
        finally:
            server.close()

    assert asyncio.run(peer()) == host, "peers keep the plain form of their address"


def test_addresses_are_written_as_urls_have_them():
    assert (str(Address("::1", 1)), str(Address("*", 1)), str(Address("a", 1))) == ("[::1]:1", "*:1", "a:1")
    assert {LOOPBACK[host] for host in ("*", "0.0.0.0", "")} == {"127.0.0.1"}
