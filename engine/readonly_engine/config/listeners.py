"""Named listeners: further URLs of a broker for clients in other networks (PIP-61), and the ports for them (PIP-95)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readonly_engine.config.kinds import comma_separated
from readonly_engine.config.option import ConfigError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT: Final = ""
"""Listener of clients that name none, on a port of no named listener."""

_ITEM: Final = re.compile(r"([\w-]+):(pulsar(?:\+ssl)?)://(.+):(.+)")
_SUM: Final = re.compile(r"([0-9]{1,5})\+([0-9]{1,5})\*([0-9]{1,5})")
"""A port that follows the ordinal of a broker: FIRST+STEP*ORDINAL. Arguments of a pod cannot add numbers."""


@dataclass(frozen=True, slots=True)
class Urls:
    """URLs of a broker.

    Attributes:
        url: without TLS, `pulsar://HOST:PORT`; empty for none.
        tls_url: with TLS, `pulsar+ssl://HOST:PORT`; empty for none.
    """

    url: str = ""
    tls_url: str = ""

    def serve(self, *, tls: bool) -> bool:
        """Return whether there is a URL for clients with TLS, or for those without."""
        return bool(self.tls_url if tls else self.url)


NO_URLS: Final = Urls()
"""Of a broker that is not known."""


@dataclass(frozen=True, slots=True)
class BindAddress:
    """Address for clients of a listener.

    Attributes:
        listener: its name.
        tls: whether connections have TLS.
        host: of this machine.
        port: 0 to 65535.
    """

    listener: str
    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}:pulsar{'+ssl' if self.tls else ''}://{self.host}:{self.port}"


def parse_advertised_listeners(items: Iterable[str]) -> Mapping[str, Urls]:
    """Parse Pulsar's `advertisedListeners` into the URLs of each listener.

    Args:
        items: `NAME:pulsar://HOST:PORT` or `NAME:pulsar+ssl://HOST:PORT` each, at most one of both for a name. PORT may be
            `FIRST+STEP*ORDINAL`, and an IPv6 address may lack its brackets.

    Raises:
        ConfigError: an item has another form, or two contradict each other.
    """
    found: dict[str, Urls] = {}
    for item in items:
        name, tls, host, port = _parse(item)
        if port == 0:
            raise ConfigError(f"must be {name}:SCHEME://HOST:PORT with a port from 1 to 65535, not {item!r}")
        url = f"pulsar{'+ssl' if tls else ''}://{host}:{port}"
        if any(url in {urls.url, urls.tls_url} for urls in found.values()):
            raise ConfigError(f"{url} is given twice: each listener needs addresses of its own")
        before = found.get(name, Urls())
        if before.serve(tls=tls):
            raise ConfigError(
                f"listener {name} has {before.tls_url if tls else before.url} and {url}: give one of them"
            )
        found[name] = Urls(before.url, url) if tls else Urls(url, before.tls_url)
    return found


def parse_bind_addresses(items: Iterable[str]) -> tuple[BindAddress, ...]:
    """Parse Pulsar's `bindAddresses`.

    Args:
        items: `NAME:pulsar://HOST:PORT` or `NAME:pulsar+ssl://HOST:PORT` each, HOST of this machine.

    Raises:
        ConfigError: an item has another form, or is given twice.
    """
    found: list[BindAddress] = []
    for item in items:
        address = BindAddress(*_parse(item))
        if address in found:
            raise ConfigError(f"{address} is given twice")
        found.append(address)
    return tuple(found)


def check_bind_addresses(addresses: Iterable[BindAddress], advertised: Mapping[str, Urls]) -> None:
    """Check that each address belongs to a listener with a URL of the same scheme.

    Raises:
        ConfigError: an address has none, so that no client could be sent there.
    """
    for address in addresses:
        if not advertised.get(address.listener, Urls()).serve(tls=address.tls):
            scheme = "pulsar+ssl" if address.tls else "pulsar"
            raise ConfigError(
                f"{address}: listener {address.listener} has no {scheme}:// URL for lookup answers; "
                f"add {address.listener}:{scheme}://HOST:PORT to advertised-listeners"
            )


def _parse(item: str) -> tuple[str, bool, str, int]:
    match = _ITEM.fullmatch(item.strip())
    wrong = ConfigError(f"must be NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT, not {shown(item)}")
    if match is None:
        raise wrong
    name, scheme, host, number = match.groups()
    try:
        parts = urlsplit(f"{scheme}://{_bracketed(host)}:{_added(number)}")
        port = parts.port
    except ValueError:
        raise wrong from None
    if not parts.hostname or port is None or parts.path or parts.query or parts.fragment or parts.username is not None:
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return name, scheme == "pulsar+ssl", host, port


def _bracketed(host: str) -> str:
    """Return an IPv6 address with brackets, and any other host unchanged: Kubernetes gives pods plain addresses."""
    try:
        return f"[{IPv6Address(host)}]"
    except ValueError:
        return host


def _added(port: str) -> str:
    """Return the port that FIRST+STEP*ORDINAL comes to, and any other text unchanged."""
    match = _SUM.fullmatch(port)
    return port if match is None else str(int(match[1]) + int(match[2]) * int(match[3]))


_FORM: Final = "NAME:pulsar[+ssl]://HOST:PORT[,...]"
_ITEMS: Final = "texts NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT"

ADVERTISED_LISTENERS: Final = comma_separated(parse_advertised_listeners, _FORM, _ITEMS)
BIND_ADDRESSES: Final = comma_separated(parse_bind_addresses, _FORM, _ITEMS)
