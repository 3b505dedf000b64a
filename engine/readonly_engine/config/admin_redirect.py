"""Rules for redirects of the admin API, for brokers and the operator alike. Pure.

An owner broker answers 307 with another broker's host and port for the same path (PulsarWebResource of Pulsar). So a redirect
may change scheme, host, port and query, and never the path: otherwise a server could choose a request to any other server.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

METADATA_SERVICES: Final = frozenset(
    map(ipaddress.ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"))
)
"""Addresses of cloud providers' metadata services that are not link-local: Azure, Alibaba, Oracle, AWS."""

DOT_SEGMENTS: Final = frozenset({".", ".."})

_SCHEMES: Final = ("http", "https")


class RedirectError(ValueError):
    """A redirect that is not followed; the text is a reason such as `redirected to file://?; expected ...`."""


def redirect_target(asked: str, location: str) -> str:
    """Return the URL to which a request continues.

    Args:
        asked: URL of the request.
        location: the answer's header Location.

    Raises:
        RedirectError: the target leaves TLS, is no HTTP URL, has a user, or has another path.
    """
    before = urlsplit(asked)
    allowed = ("https",) if before.scheme == "https" else _SCHEMES
    try:
        url = urljoin(asked, location)
        after = urlsplit(url)
        host = after.hostname
        well_formed = bool(host) and after.port != 0
    except ValueError:
        raise RedirectError(f"redirected to a malformed URL; expected {_forms(allowed)}") from None
    if after.scheme not in allowed or not well_formed or "@" in after.netloc:
        raise RedirectError(f"redirected to {after.scheme or '?'}://{host or '?'}; expected {_forms(allowed)}")
    if _segments(before) != _segments(after):
        raise RedirectError("redirected to another path; expected the same path at another broker")
    return url


def is_same_host(first: str, second: str) -> bool:
    """Return whether two URLs have the same host; their ports may differ."""
    return urlsplit(first).hostname == urlsplit(second).hostname


def is_followed(address: str, given_host: str) -> bool:
    """Return whether a redirect away from a given host may lead to an address.

    It never leads to a link-local address or another metadata service. It leads to loopback only from loopback, as on one
    machine. The given host itself may have any address: its user named it.

    Args:
        address: IP address of the target, as the connection uses it.
        given_host: host of the configured URL.
    """
    found = _unmapped(address)
    if found is None:
        return False
    if found.is_loopback or found.is_unspecified:
        return _is_loopback(given_host)
    return not (found.is_link_local or found.is_multicast or found in METADATA_SERVICES)


def has_dot_segment(path: str) -> bool:
    """Return whether a path, perhaps with a query, has a segment `.` or `..`, which clients and servers resolve.

    Percent escapes do not help: servers decode them first, or refuse them.
    """
    return not DOT_SEGMENTS.isdisjoint(path.partition("?")[0].split("/"))


def _forms(schemes: tuple[str, ...]) -> str:
    return f"{' or '.join(schemes)}://HOST:PORT"


def _segments(parts: SplitResult) -> list[str]:
    return [unquote(one) for one in parts.path.split("/")]


def _unmapped(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])  # without the zone of a link-local address
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    found = _unmapped(host)
    return found is not None and found.is_loopback
