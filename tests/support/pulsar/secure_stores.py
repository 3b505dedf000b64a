"""A Pulsar whose ZooKeeper and bookies are as in production: TLS with client certificates, logins, and rights on nodes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, make_acl
from readonly_engine.metadata.security import StoreSecurity
from readonly_engine.metadata.zookeeper_connection import Connection

from devstack.cache import cache_root
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.secure_stores import READER, SERVERS, StoreSecrets, secured
from devstack.pulsar.spec import ZOOKEEPER, PulsarSpec

BASE_PORT: Final = 16700

OWN_ROOT: Final = "/pulsar-readonly"
ZOOKEEPERS_OWN: Final = "/zookeeper"
REGISTRATIONS: Final = "/ledgers/available"


@contextmanager
def restricted_stack() -> Iterator[tuple[PulsarCluster, StoreSecrets]]:
    """Start a small stack with secure stores, whose pools' user may write below OWN_ROOT only, and read all else."""
    spec = secured(
        PulsarSpec(name="secure", base_port=BASE_PORT, bookies=1, brokers=1, quick=True, metadata=ZOOKEEPER),
        secrets_folder(),
    )
    stack = PulsarCluster(spec)
    stack.up(renew=True)
    with session(stack, SERVERS) as client:
        if client.exists(OWN_ROOT) is None:
            client.create(OWN_ROOT, acl=rights("crwda"))
        restrict(client)
    yield stack, StoreSecrets(Path(spec.store_secrets))
    if os.environ.get("CI") == "true" or os.environ.get("KEEP_PULSAR") == "0":
        stack.down()


def login_stack() -> PulsarCluster:
    """Return a small stack whose bookies have logins instead of TLS, not started yet."""
    spec = PulsarSpec(
        name="bookie-login", base_port=BASE_PORT + 50, bookies=1, brokers=1, quick=True, metadata=ZOOKEEPER
    )
    return PulsarCluster(secured(spec, secrets_folder(), bookie_login=True))


def secrets_folder() -> Path:
    """Return the folder of the secrets that all secure stacks of the tests share."""
    return cache_root() / "pulsar" / "store-secrets"


@contextmanager
def session(stack: PulsarCluster, user: str = "") -> Iterator[KazooClient]:
    """Open a session at ZooKeeper's port without TLS, with a user's login."""
    client = KazooClient(f"127.0.0.1:{stack.spec.zookeeper_port}", timeout=40)
    login = StoreSecrets(Path(stack.spec.store_secrets)).login_file(user) if user else None
    Connection.of(client, StoreSecurity(login_file=login))
    client.start(40)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def rights(reader: str, *, everyone: str = "") -> list[ACL]:
    """Return rights: all for the servers, these for the reader, and these for everyone."""

    def allowed(scheme: str, user: str, letters: str) -> ACL:
        names = {"c": "create", "r": "read", "w": "write", "d": "delete", "a": "admin"}
        return make_acl(scheme, user, **{names[letter]: True for letter in letters})

    found = [allowed("sasl", SERVERS, "crwda"), allowed("sasl", READER, reader)]
    return found + ([allowed("world", "anyone", everyone)] if everyone else [])


def restrict(client: KazooClient, path: str = "/") -> None:
    """Give the servers all rights on all nodes, and the reader the right to read only, except below OWN_ROOT."""
    if path in {OWN_ROOT, ZOOKEEPERS_OWN}:
        return
    try:
        # The devstack removes registrations of dead bookies without a login.
        client.set_acls(path, rights("r", everyone="d" if path == REGISTRATIONS else ""))
        children = client.get_children(path)
    except (NoAuthError, NoNodeError):
        return  # it belongs to another login, of a test, or was removed meanwhile
    for name in children:
        restrict(client, f"{path.rstrip('/')}/{name}")
