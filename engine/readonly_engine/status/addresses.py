"""Addresses on the page: links that lead to HTTP only, and URLs without a user. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def page_url(host: str, port: int, *, tls: bool = False) -> str:
    """Return the URL of a status page; empty without a port, or for a host that is neither a name nor an address."""
    if not 0 < port < 1 << 16 or not _HOST.fullmatch(host):
        return ""
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


def status_url(broker_url: str, port: int, *, tls: bool = False) -> str:
    """Return the URL of the status page of a broker of the pool.

    Args:
        broker_url: its URL for clients, from the metadata store.
        port: the port that it has published; 0 for none.
        tls: whether the port has TLS.
    """
    return page_url(host_of(broker_url), port, tls=tls)


def host_of(url: str) -> str:
    """Return the host of a URL, or of a Host header with `//` before it; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def without_user(url: str) -> str:
    """Return a URL, of one or several hosts, without users and passwords."""
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    hosts, slash, path = rest.partition("/")
    return f"{scheme}://{','.join(host.rpartition('@')[2] for host in hosts.split(','))}{slash}{path}"
