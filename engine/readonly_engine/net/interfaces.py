"""Local addresses of a server that listens on all interfaces, in clusters with IPv4, IPv6 or both."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Final

ALL_INTERFACES: Final = "*"
"""All addresses of this machine, of IPv4 and of IPv6."""
_ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - in a container a server listens on all
_ANY_IPV6: Final = "::"
_UNAVAILABLE: Final = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT}

LOOPBACK: Final = {ALL_INTERFACES: "127.0.0.1", _ANY_IPV4: "127.0.0.1", _ANY_IPV6: "::1", "": "127.0.0.1"}
"""Address by which this machine reaches its own server that listens on all interfaces."""

LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts that lead to this machine alone."""


def local_hosts(host: str) -> list[str]:
    """Return the addresses to bind for a host of an option.

    asyncio binds an IPv6 address for IPv6 alone. So ALL_INTERFACES takes two sockets, and peers with IPv4 keep their plain
    addresses. Without IPv6 in the kernel it takes one.

    Args:
        host: a host name, an address, or ALL_INTERFACES.
    """
    if host != ALL_INTERFACES:
        return [host]
    return [_ANY_IPV4, _ANY_IPV6] if _has_ipv6() else [_ANY_IPV4]


def is_public(host: str) -> bool:
    """Return whether a host is an address of the internet. A name, and ALL_INTERFACES, is none."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind((_ANY_IPV6, 0))
    except OSError as error:
        if error.errno in _UNAVAILABLE:
            return False
        raise
    return True
