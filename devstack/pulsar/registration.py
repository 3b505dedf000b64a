"""Registrations in ZooKeeper that outlive the process which made them."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from devstack.errors import DevstackError

_TIMEOUT_S = 15.0


def forget_bookie(zookeeper: str, bookie_id: str) -> None:
    """Remove what a dead bookie has left in ZooKeeper.

    A killed bookie's registration lives until its session expires (30 s). One that is started again before that takes the old
    registration for its own and loses it at the expiry: it runs on, and no broker uses it (measured, 4.0.8).

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
