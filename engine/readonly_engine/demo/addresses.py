"""Checks that a running cluster answers, before anything is created there."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout

from readonly_engine.demo.errors import DemoError
from readonly_engine.metadata.url import MetadataUrl

if TYPE_CHECKING:
    from readonly_engine.demo.source_cluster import SourceCluster

ATTEMPT_S: Final = 5.0
_UNAUTHORIZED: Final = {401, 403}


async def check_addresses(cluster: SourceCluster, token: str) -> None:
    """Check the admin API, the service URL and the metadata store.

    Args:
        cluster: the running cluster.
        token: token for the admin API; empty for none.

    Raises:
        DemoError: one does not answer; the text names its option.
    """
    await _check_admin(cluster.admin_url, token)
    # The port of a URL without one.
    default = "6651" if cluster.service_url.startswith("pulsar+ssl") else "6650"
    hosts = [
        host if re.search(r":\d+$", host) else f"{host}:{default}"
        for host in cluster.service_url.partition("://")[2].partition("/")[0].split(",")
    ]
    await _check_ports("--service-url", cluster.service_url, "broker", hosts)
    store = MetadataUrl.parse(cluster.metadata_store)
    await _check_ports("--metadata-store-url", cluster.metadata_store, "metadata store", store.hosts.split(","))


async def _check_admin(url: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=ATTEMPT_S), headers=headers) as session,
            session.get(f"{url}/admin/v2/clusters") as response,
        ):
            status = response.status
    except (ClientError, OSError, TimeoutError) as error:
        raise _silent("--admin-url", url, "admin API", error) from error
    if status in _UNAUTHORIZED:
        raise DemoError(
            f"--admin-url {url}: the admin API answers {status}: give the file of a token by --token-file (make: TOKEN_FILE=);"
            " nothing was created"
        )
    if status != 200:
        raise DemoError(f"--admin-url {url}: this is no admin API of Pulsar, it answers {status}; nothing was created")


async def _check_ports(option: str, url: str, what: str, hosts: list[str]) -> None:
    failure: Exception | None = None
    for host in hosts:
        found = urlsplit(f"//{host}")
        try:
            async with asyncio.timeout(ATTEMPT_S):
                _, writer = await asyncio.open_connection(found.hostname, found.port)
        except (OSError, TimeoutError) as error:
            failure = error
        else:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            return
    raise _silent(option, url, what, failure)


def _silent(option: str, url: str, what: str, error: Exception | None) -> DemoError:
    reason = str(error) or f"no answer within {ATTEMPT_S:g} s"
    return DemoError(f"{option} {url}: no {what} answers: {reason}; nothing was created")
