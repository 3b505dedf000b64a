"""The Pulsar of the programs, and pools with one address each."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError
from devstack.pool import Pool
from devstack.pulsar.spec import PulsarSpec, Setting
from longtests.frameworks.cases import DRAIN
from longtests.frameworks.relay import AddressRelay

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.pool import BrokerProcess
    from devstack.pulsar.status import Endpoints
    from longtests.frameworks.relay import RelayLoop

BASE_PORT: Final = 32450
LEDGER_ENTRIES: Final = 100
POOL_BROKERS: Final = 2
TOPICS: Final = "persistent://public/frameworks-.*"

SPEC: Final = PulsarSpec(
    name="frameworks",
    base_port=BASE_PORT,
    bookies=1,
    brokers=2,
    quick=True,
    settings=(
        Setting("broker", "managedLedgerMaxEntriesPerLedger", str(LEDGER_ENTRIES)),
        # By default, ledgers that all subscriptions have consumed are deleted, and a Reader cannot go back to them.
        Setting("broker", "defaultRetentionTimeInMinutes", "60"),
        Setting("broker", "defaultRetentionSizeInMB", "1024"),
    ),
)
"""Two brokers, so that lookups lead to another one and topics can move; small ledgers, so that topics roll."""


class PoolAddress:
    """A pool of read-only brokers behind one address, as a Service of Kubernetes has it.

    Args:
        endpoints: the source cluster.
        folder: folder of the brokers' logs.
        loop: the event loop of the address.
    """

    def __init__(self, endpoints: Endpoints, folder: Path, loop: RelayLoop) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._loop = loop
        self._pool = Pool(endpoints, folder, uuid.uuid4().hex, ["--topics", TOPICS])
        self._relay = AddressRelay(lambda: [broker.address for broker in self._live()])
        try:
            self._pool.start(POOL_BROKERS)
            self.url = f"pulsar://127.0.0.1:{loop.run(self._relay.start())}"
        except BaseException:
            self._pool.close()
            raise

    @property
    def http_url(self) -> str:
        """The HTTP port of a live broker."""
        return self._live()[0].http_url

    def renew(self) -> None:
        """Start ended brokers again."""
        for index, broker in enumerate(self._pool.brokers):
            if broker.process.poll() is not None:
                self._pool.restart(index)
        self._pool.wait_members(POOL_BROKERS)

    def end_serving(self, topic: str, how: str) -> None:
        """End the broker that serves a topic, by SIGTERM (DRAIN) or by kill -9; else one through which its consumers are relayed.

        Raises:
            DevstackError: no broker has its consumers.
        """
        relays = []
        for broker in self._live():
            subscriptions = broker.stats()["topics"].get(topic, {"subscriptions": {}})["subscriptions"].values()
            if any("servedBy" not in one for one in subscriptions):
                _end(broker, how)
                return
            relays += [broker] if subscriptions else []
        if not relays:
            raise DevstackError(f"no broker of the pool has consumers of {topic}")
        _end(relays[0], how)

    def close(self) -> None:
        """Stop its brokers, and close the address."""
        self._loop.run(self._relay.close())
        self._pool.close()

    def _live(self) -> list[BrokerProcess]:
        return [broker for broker in self._pool.brokers if broker.process.poll() is None]


def _end(broker: BrokerProcess, how: str) -> None:
    if how == DRAIN:
        broker.stop()
    else:
        broker.kill()
