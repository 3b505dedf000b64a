"""HTTP sessions for redirects of the admin API to other hosts: they connect to no address that a redirect must not reach."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import DefaultResolver

from readonly_engine.config.admin_redirect import is_followed
from readonly_engine.owner.errors import OwnerUnavailableError

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult


class RedirectSessions:
    """A session for each configured host that redirects. Their number is that of the configured URLs.

    Args:
        timeout_s: deadline of a request.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    def session(self, given: str, target: str) -> aiohttp.ClientSession:
        """Return the session for a request to the target of a redirect.

        Args:
            given: the configured URL.
            target: URL of the target, with another host.

        Raises:
            OwnerUnavailableError: the target is an address that a redirect must not reach.
        """
        given_host, host = urlsplit(given).hostname or "", urlsplit(target).hostname or ""
        if _is_address(host) and not is_followed(host, given_host):  # an address needs no resolver
            raise OwnerUnavailableError(f"the admin API at {given_host} redirected to {host}, which {_REFUSED}")
        if given_host not in self._sessions:
            self._sessions[given_host] = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                connector=aiohttp.TCPConnector(resolver=GuardedResolver(DefaultResolver(), given_host)),
            )
        return self._sessions[given_host]

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()


_REFUSED = "is an address of this machine or of a metadata service and is not followed"


class GuardedResolver(AbstractResolver):
    """Resolves names to the addresses that a redirect may reach. The connection uses no others, whatever a second answer says.

    Args:
        resolver: resolves names.
        given_host: host of the configured URL.
    """

    def __init__(self, resolver: AbstractResolver, given_host: str) -> None:
        self._resolver = resolver
        self._given_host = given_host

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            OSError: it has none that a redirect may reach.
        """
        found = await self._resolver.resolve(host, port, family)
        allowed = [one for one in found if is_followed(one["host"], self._given_host)]
        if not allowed:
            raise OSError(errno.EPERM, f"the target of the redirect {_REFUSED}")
        return allowed

    async def close(self) -> None:
        """Release the resolver."""
        await self._resolver.close()


def _is_address(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host.partition("%")[0])
    except OSError:
        return False
    return True
