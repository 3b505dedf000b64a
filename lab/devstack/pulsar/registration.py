"""Registrations of bookies in ZooKeeper that outlive their process."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from devstack.errors import DevstackError

_TIMEOUT_S = 15.0


def forget_bookie(zookeeper: str, bookie_id: str) -> None:
    """Remove the registration of a dead bookie from ZooKeeper.

    The registration of a killed bookie lasts until its session expires (30 s). A bookie that starts before that reuses the old
    registration and loses it at the expiry: it keeps running, but no broker uses it (measured, 4.0.8).

    Raises:
        DevstackError: ZooKeeper does not answer.
    """
    client = KazooClient(hosts=zookeeper, timeout=_TIMEOUT_S)
    try:
        client.start(_TIMEOUT_S)
        client.delete(f"/ledgers/available/{bookie_id}")
    except NoNodeError:
        return
    except (KazooTimeoutError, KazooException) as error:
        raise DevstackError(f"ZooKeeper at {zookeeper} does not answer: {type(error).__name__}") from error
    finally:
        client.stop()
        client.close()
