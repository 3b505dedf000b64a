"""The Pulsar of the oracle test: three bookies, one broker, small ledgers, transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from devstack.pulsar.spec import PulsarSpec, Setting
from tests.support.entry_metadata import WRITTEN

BASE_PORT: Final = 31650
LEDGER_ENTRIES: Final = 700
"""Entries of a full ledger: a topic of the full run has six ledgers and more."""

SPEC: Final = PulsarSpec(
    name="oracle",
    base_port=BASE_PORT,
    bookies=3,
    brokers=1,
    transactions=True,
    quick=True,
    settings=(
        Setting("broker", "managedLedgerMaxEntriesPerLedger", str(LEDGER_ENTRIES)),
        # By default, full ledgers of a topic without subscriptions are deleted at once.
        Setting("broker", "defaultRetentionTimeInMinutes", "-1"),
        Setting("broker", "defaultRetentionSizeInMB", "-1"),
    ),
)
"""The stack at the start of a run."""


def with_broker_metadata(spec: PulsarSpec) -> PulsarSpec:
    """Return the same stack with brokers that write broker entry metadata before each entry, and strip it for consumers."""
    return replace(spec, settings=(*spec.settings, WRITTEN))
