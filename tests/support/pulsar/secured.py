"""A Pulsar that asks its clients who they are: two brokers with tokens, passwords, permissions and TLS."""

from dataclasses import replace

from devstack.cache import cache_root
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.security import Credentials
from devstack.pulsar.spec import PulsarSpec, Setting

REFRESH_S = 1
"""How often brokers look for expired credentials (authenticationRefreshCheckSeconds)."""

BASE_PORT = 22650

PASSWORDS = {"reader": "open sesame", "nobody": "knock knock"}


def secured_stack() -> tuple[PulsarCluster, Credentials]:
    """The stack, not started yet, and what its brokers trust."""
    credentials = Credentials.make(cache_root() / "pulsar" / "credentials")
    if not credentials.passwords.exists():
        credentials.set_passwords(PASSWORDS)
    spec = PulsarSpec(name="auth", base_port=BASE_PORT, bookies=1, brokers=2, quick=True)
    settings = (
        *credentials.settings(spec),
        Setting("broker", "authenticationRefreshCheckSeconds", str(REFRESH_S)),
        Setting("broker", "managedLedgerMaxEntriesPerLedger", "100"),
    )
    return PulsarCluster(
        replace(spec, settings=settings, admin_token_file=str(credentials.admin_token_file))
    ), credentials
