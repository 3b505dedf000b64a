"""The Pulsar that the churn runs on: three bookies, two brokers."""

from __future__ import annotations

from typing import Final

from devstack.pulsar.spec import PulsarSpec, Setting

BASE_PORT: Final = 31750
SESSION_TIMEOUT_S: Final = 10
"""ZooKeeper believes so long in a dead broker (metadataStoreSessionTimeoutMillis, 30 s by default): its topics wait for it."""

SPEC: Final = PulsarSpec(
    name="churn",
    base_port=BASE_PORT,
    bookies=3,
    brokers=2,
    quick=True,
    settings=(
        Setting("broker", "metadataStoreSessionTimeoutMillis", str(SESSION_TIMEOUT_S * 1000)),
        # Ledgers that are full now and then, besides those that end with an unload.
        Setting("broker", "managedLedgerMaxEntriesPerLedger", "2000"),
    ),
)
