"""Named listeners: addresses of a broker for clients that reach it otherwise (PIP-61), and the ports they come to (PIP-95)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT: Final = ""
"""The listener of clients that name none, and came in at no port of another."""

_ITEM: Final = re.compile(r"([\w-]+):(pulsar(?:\+ssl)?://.+)")


class ListenerError(ValueError):
    """A text is not what it should be: says which part, and what would be right."""


@dataclass(frozen=True, slots=True)
class Urls:
    """Where clients reach a broker.

    Attributes:
        url: without TLS, `pulsar://HOST:PORT`; empty for nowhere.
        tls_url: with TLS, `pulsar+ssl://HOST:PORT`; empty for nowhere.
    """

    url: str = ""
    tls_url: str = ""

    def serve(self, *, tls: bool) -> bool:
        """Whether a client that speaks TLS, or does not, reaches the broker."""
        return bool(self.tls_url if tls else self.url)


@dataclass(frozen=True, slots=True)
class BindAddress:
    """Where clients of a listener come in.

    Attributes:
        listener: its name.
        tls: whether they speak TLS.
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
    """The URLs of each listener, from texts as in Pulsar's `advertisedListeners`.

    Args:
        items: `NAME:pulsar://HOST:PORT` or `NAME:pulsar+ssl://HOST:PORT` each, at most one of both for a name.

    Raises:
        ListenerError: one is something else, or two say different things of the same.
    """
    found: dict[str, Urls] = {}
    for item in items:
        name, tls, host, port = _parse(item)
        if port == 0:
            raise ListenerError(f"{item!r} would be {name}:SCHEME://HOST:PORT with a port from 1 to 65535")
        url = f"pulsar{'+ssl' if tls else ''}://{host}:{port}"
        if any(url in {urls.url, urls.tls_url} for urls in found.values()):
            raise ListenerError(f"{url} is given twice: each listener needs addresses of its own")
        before = found.get(name, Urls())
        if before.serve(tls=tls):
            raise ListenerError(
                f"listener {name} has {before.tls_url if tls else before.url} and {url}: give one of them"
            )
        found[name] = Urls(before.url, url) if tls else Urls(url, before.tls_url)
    return found


def parse_bind_addresses(items: Iterable[str], advertised: Mapping[str, Urls]) -> tuple[BindAddress, ...]:
    """Where clients of each listener come in, from texts as in Pulsar's `bindAddresses`.

    Args:
        items: `NAME:pulsar://HOST:PORT` or `NAME:pulsar+ssl://HOST:PORT` each, HOST of this machine.
        advertised: the listeners that there are.

    Raises:
        ListenerError: one is something else, is given twice, or is of a listener that is not advertised.
    """
    found: list[BindAddress] = []
    for item in items:
        address = BindAddress(*_parse(item))
        if not advertised.get(address.listener, Urls()).serve(tls=address.tls):
            scheme = "pulsar+ssl" if address.tls else "pulsar"
            raise ListenerError(
                f"{address}: its clients could be sent nowhere; advertise {address.listener}:{scheme}://HOST:PORT too"
            )
        if address in found:
            raise ListenerError(f"{address} is given twice")
        found.append(address)
    return tuple(found)


def _parse(item: str) -> tuple[str, bool, str, int]:
    match = _ITEM.fullmatch(item.strip())
    wrong = ListenerError(f"{item!r} would be NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT")
    if match is None:
        raise wrong
    try:
        parts = urlsplit(match[2])
        port = parts.port
    except ValueError:
        raise wrong from None
    if not parts.hostname or port is None or parts.path or parts.query or parts.fragment or parts.username is not None:
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return match[1], parts.scheme == "pulsar+ssl", host, port
