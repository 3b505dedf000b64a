"""The Pulsar that the oracle compares with: three bookies, one broker, small ledgers, transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from devstack.pulsar.spec import PulsarSpec, Setting

BASE_PORT: Final = 31650
LEDGER_ENTRIES: Final = 700
"""A ledger is full after so many entries: a topic of the full run lies in six of them and more."""

_INTERCEPTORS: Final = ",".join(
    f"org.apache.pulsar.common.intercept.{name}"
    for name in ("AppendBrokerTimestampMetadataInterceptor", "AppendIndexMetadataInterceptor")
)

SPEC: Final = PulsarSpec(
    name="oracle",
    base_port=BASE_PORT,
    bookies=3,
    brokers=1,
    transactions=True,
    quick=True,
    settings=(
        Setting("broker", "managedLedgerMaxEntriesPerLedger", str(LEDGER_ENTRIES)),
        # Else the ledgers of a topic without subscriptions go as soon as they are full.
        Setting("broker", "defaultRetentionTimeInMinutes", "-1"),
        Setting("broker", "defaultRetentionSizeInMB", "-1"),
    ),
)
"""The stack as a run begins."""


def with_broker_metadata(spec: PulsarSpec) -> PulsarSpec:
    """The same stack with brokers that put metadata of their own before each entry, which they strip for consumers."""
    return replace(spec, settings=(*spec.settings, Setting("broker", "brokerEntryMetadataInterceptors", _INTERCEPTORS)))
