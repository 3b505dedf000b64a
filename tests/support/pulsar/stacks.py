"""Stacks of Pulsar: a setting of brokers by its name, topics that keep their ledgers, and the stack of one file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting

LEDGER_ENTRIES: Final = 100
"""A topic's ledger is full after so many entries: a few hundred messages make a topic of several ledgers."""


def broker_settings(**values: object) -> tuple[Setting, ...]:
    """Settings of broker.conf, by name."""
    return tuple(Setting("broker", name, str(value)) for name, value in values.items())


def kept_ledgers(entries: int = LEDGER_ENTRIES) -> tuple[Setting, ...]:
    """Topics have ledgers of so many entries, and keep them: else those without subscriptions go as soon as they are full."""
    return broker_settings(
        managedLedgerMaxEntriesPerLedger=entries, defaultRetentionTimeInMinutes=60, defaultRetentionSizeInMB=1024
    )


@contextmanager
def fresh_stack(name: str, base_port: int, **spec: Any) -> Iterator[PulsarCluster]:
    """A stack without data of former runs, and with one bookie and one broker by default; nothing of it stays."""
    stack = PulsarCluster(PulsarSpec(name=name, base_port=base_port, quick=True, **{"bookies": 1, "brokers": 1} | spec))
    stack.down(purge=True)
    stack.up()
    yield stack
    stack.down(purge=True)
