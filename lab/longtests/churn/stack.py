"""The Pulsar of the churn test: three bookies, two brokers."""

from __future__ import annotations

from typing import Final

from devstack.pulsar.spec import PulsarSpec, Setting

BASE_PORT: Final = 31750
SESSION_TIMEOUT_S: Final = 10
"""Session timeout of brokers (metadataStoreSessionTimeoutMillis, default 30 s): a dead broker owns its topics for so long."""

SPEC: Final = PulsarSpec(
    name="churn",
    base_port=BASE_PORT,
    bookies=3,
    brokers=2,
    quick=True,
    settings=(
        Setting("broker", "metadataStoreSessionTimeoutMillis", str(SESSION_TIMEOUT_S * 1000)),
        # Ledgers roll when they are full, not only at an unload.
        Setting("broker", "managedLedgerMaxEntriesPerLedger", "2000"),
    ),
)
