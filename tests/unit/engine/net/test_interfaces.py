"""A server that listens on all interfaces is reached by IPv4 and by IPv6, where the machine has it."""

import asyncio
import errno
import socket
import ssl

import pytest
from aiohttp import web
from readonly_engine.broker.server.broker import Broker
from readonly_engine.config.kinds import Address
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.http.guard import HttpPort
from readonly_engine.net import interfaces
from readonly_engine.net.interfaces import ALL_INTERFACES, LOOPBACK, local_hosts
from readonly_engine.net.tls_listener import TlsListener


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
async def test_clients_of_either_family_connect(family, host):
    if not has_loopback(family, host):
        pytest.skip(f"this machine has no {host}")
    with socket.socket(socket.AF_INET) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, local_hosts(ALL_INTERFACES), port)
    try:
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        assert writer.get_extra_info("sockname")[0] == host, "peers keep the plain form of their address"
    finally:
        server.close()


class Context:
    """A TLS context that never changes."""

    def __init__(self):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def get(self):
        return self._context


class Servers:
    """What `Broker.listen` needs of a broker."""

    def __init__(self):
        self._servers = []


async def families_of_http() -> set[int]:
    http = HttpPort(web.Application())
    await http.start(ALL_INTERFACES, 0)
    try:
        return {one.family for one in http._listener.sockets}
    finally:
        await http.close()


async def families_of_tls() -> set[int]:
    listener = TlsListener(asyncio.Protocol, Context())
    await listener.start(ALL_INTERFACES, 0)
    try:
        return {one.family for server in listener._servers for one in server.sockets}
    finally:
        listener.close()


async def families_of_clients() -> set[int]:
    broker = Servers()
    await Broker.listen(broker, DEFAULT, ALL_INTERFACES, 0)
    try:
        return {one.family for server in broker._servers for one in server.sockets}
    finally:
        for server in broker._servers:
            server.close()


@pytest.mark.parametrize("families", [families_of_http, families_of_tls, families_of_clients])
def test_every_port_of_a_broker_listens_for_both_families(families):
    expected = {socket.AF_INET, socket.AF_INET6} if len(local_hosts(ALL_INTERFACES)) > 1 else {socket.AF_INET}
    assert asyncio.run(families()) == expected


def test_addresses_are_written_as_urls_have_them():
    assert (str(Address("::1", 1)), str(Address("*", 1)), str(Address("a", 1))) == ("[::1]:1", "*:1", "a:1")
    assert {LOOPBACK[host] for host in ("*", "0.0.0.0", "")} == {"127.0.0.1"}
