"""Records in the metadata store of the chaos test, as clients other than the engine's see them: bookies, and records of pools."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from devstack.pulsar.oxia_servers import run_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = "/pulsar-readonly"
"""Root of all records of pools."""

BOOKIES: Final = "/ledgers/available"
ANSWER_S: Final = 5.0
_FOLDERS: Final = frozenset({"brokers", "claims", "batches"})
_OXIA: Final = "oxia://"


def registrations(url: str, seconds: float = ANSWER_S) -> dict[str, int]:
    """Return the writable bookies, each with a number that a new registration changes (always 0 with Oxia).

    Args:
        url: the store, in Pulsar's form.
        seconds: limit of an answer.

    Raises:
        OSError: the store does not answer.
    """
    if url.startswith(_OXIA):
        return dict.fromkeys(_oxia_children(url, BOOKIES, seconds), 0)
    with _zookeeper(url, seconds) as client:
        stats = {name: client.exists(f"{BOOKIES}/{name}") for name in client.get_children(BOOKIES)}
    return {name: stat.czxid for name, stat in stats.items() if stat is not None}


def pool_records(url: str, seconds: float = ANSWER_S) -> list[str]:
    """Return the records of pools that have none below them, but for brokers and empty folders.

    Args:
        url: the store, in Pulsar's form.
        seconds: limit of an answer.

    Raises:
        OSError: the store does not answer.
    """
    if url.startswith(_OXIA):
        return sorted(_leaves(ROOT, lambda path: _oxia_children(url, path, seconds)))
    with _zookeeper(url, seconds) as client:
        return sorted(_leaves(ROOT, client.get_children)) if client.exists(ROOT) else []


def _leaves(path: str, children: Callable[[str], list[str]]) -> Iterator[str]:
    found = children(path)
    if not found and path != ROOT and "/brokers/" not in path and path.rpartition("/")[2] not in _FOLDERS:
        yield path
    for child in found:
        yield from _leaves(f"{path}/{child}", children)


def _oxia_children(url: str, path: str, seconds: float) -> list[str]:
    """Return the names of a record's children. Oxia orders keys by their slashes first, so the range has no grandchildren."""
    address, _, namespace = url.removeprefix(_OXIA).partition("/")
    command = ("list", "--key-min", f"{path}/", "--key-max", f"{path}//", "--request-timeout", f"{seconds:g}s")
    try:
        ended = run_client(address, namespace, *command, seconds=2 * seconds)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"Oxia at {address} does not answer") from error
    if ended.returncode != 0:
        raise OSError(f"Oxia at {address} does not answer: {ended.stderr.strip()[-200:]}")
    return [key.rpartition("/")[2] for key in ended.stdout.split() if not key.endswith("/readonly")]


@contextmanager
def _zookeeper(url: str, seconds: float) -> Iterator[KazooClient]:
    client = KazooClient(hosts=url.removeprefix("zk:"), timeout=seconds)
    try:
        client.start(seconds)
        yield client
    except (KazooException, KazooTimeoutError) as error:
        raise OSError(f"ZooKeeper at {url} does not answer: {error}") from error
    finally:
        client.stop()
        client.close()
