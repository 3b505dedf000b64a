"""The Pulsar and the pools of the scenarios, and the two targets."""

from __future__ import annotations

import json
import subprocess
import uuid
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError
from devstack.pool import Pool
from devstack.pulsar.spec import PulsarSpec, Setting
from longtests.compat.process import OperationError
from longtests.compat.session import OWNER, POOL, Environment
from longtests.compat.views import LocalView, OwnerView
from tests.support.entry_metadata import EXPOSED, WRITTEN
from tests.support.subscriptions_tool import COMMAND, connections_of

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.pulsar.admin import PulsarAdmin
    from devstack.pulsar.cluster import PulsarCluster
    from devstack.pulsar.status import Endpoints
    from longtests.compat.views import View

BASE_PORT: Final = 32650
LEDGER_ENTRIES: Final = 100
POOL_BROKERS: Final = 2
_TOOL_TIMEOUT_S: Final = 60.0
TOPICS: Final = "persistent://public/compat-.*"

SPEC: Final = PulsarSpec(
    name="compat",
    base_port=BASE_PORT,
    bookies=1,
    brokers=2,
    transactions=True,
    quick=True,
    settings=(
        Setting("broker", "acknowledgmentAtBatchIndexLevelEnabled", "true"),
        Setting("broker", "managedLedgerMaxEntriesPerLedger", str(LEDGER_ENTRIES)),
        WRITTEN,
        EXPOSED,
        # By default, ledgers that all subscriptions have consumed are deleted, and no seek can go back to them.
        Setting("broker", "defaultRetentionTimeInMinutes", "60"),
        Setting("broker", "defaultRetentionSizeInMB", "1024"),
    ),
)
"""One Pulsar for all scenarios; two brokers, so that topics can move."""


def make_place(stack: PulsarCluster, folder: Path) -> Environment:
    """Create namespaces and keys for one run."""
    admin, tag = stack.admin(), uuid.uuid4().hex[:8]
    names = [f"public/compat-{kind}-{tag}" for kind in ("any", "strict", "dedup")]
    for name in names:
        admin.create_namespace(name)
    admin.forbid_topic_creation(names[1])
    admin.set_deduplication(names[2], enabled=True)
    private, public = folder / "private.pem", folder / "public.pem"
    # Java's client of 2024 cannot read the other form of a private key (PKCS #8).
    for command in (
        ["openssl", "genrsa", "-traditional", "-out", str(private), "2048"],
        ["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return Environment(admin, *names, keys=str(folder))


class OwnerTarget:
    """The source cluster itself."""

    name = OWNER

    def __init__(self, endpoints: Endpoints, admin: PulsarAdmin) -> None:
        self.url = endpoints.writer_url
        self.view = OwnerView(admin)
        self._admin = admin

    def spread(self, topic: str, subscription: str) -> bool:
        """Return True: one owner dispatches."""
        del topic, subscription
        return True

    def restart(self, topic: str) -> None:
        """Unload the topic: for a client this is the same as a restart of its server, and other scenarios continue."""
        self._admin.unload(topic)

    def close(self) -> None:
        """Do nothing: this target holds no resources."""


class PoolTarget:
    """A pool of read-only brokers in front of it. Clients get all of their URLs, instead of a service's name.

    Args:
        endpoints: the source cluster.
        admin: its admin API.
        folder: folder of the brokers' logs.
        cursors: keeper of the cursors, `owner` or `local`.
        split: whether both brokers serve each subscription.
    """

    name = POOL

    def __init__(
        self, endpoints: Endpoints, admin: PulsarAdmin, folder: Path, cursors: str = "owner", *, split: bool = False
    ) -> None:
        bindings = folder / "bindings.json"
        binding = {"name": "compat", "topics": [TOPICS], "dispatch": "Split" if split else "Single"}
        bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}), encoding="utf-8")
        options = ["--bindings", str(bindings), "--cursors", cursors]
        self._pool = Pool(endpoints, folder, uuid.uuid4().hex, options)
        self._endpoints = endpoints
        local = LocalView(self._pool, endpoints, admin, self._run_tool) if cursors == "local" else None
        self.view: View = local or OwnerView(admin)
        self._close_view = local.close if local else lambda: None
        try:
            self._pool.start(POOL_BROKERS)
        except BaseException:
            self._pool.close()
            raise

    @property
    def url(self) -> str:
        """Service URL of the running brokers."""
        return self._pool.url

    def spread(self, topic: str, subscription: str) -> bool:
        """Return whether every broker dispatches a subscription: one leases it, the others follow."""
        try:
            found = [broker.stats()["topics"].get(topic, {"subscriptions": {}}) for broker in self._pool.brokers]
        except OSError:  # no answer in time
            return False
        states = [one["subscriptions"].get(subscription, {}).get("split", {}).get("state") for one in found]
        return sorted(map(str, states)) == ["coordinating", *["following"] * (len(states) - 1)]

    def renew(self) -> None:
        """Start as many brokers as were killed."""
        live = [broker for broker in self._pool.brokers if broker.process.poll() is None]
        if len(live) < POOL_BROKERS:
            self._pool.start(POOL_BROKERS - len(live))

    def restart(self, topic: str) -> None:
        """Kill the broker that serves a topic: the other one takes over.

        Raises:
            DevstackError: no broker serves it.
        """
        for broker in self._pool.brokers:
            if broker.process.poll() is None and topic in broker.stats()["topics"]:
                broker.kill()
                return
        raise DevstackError(f"no broker of the pool serves {topic}")

    def close(self) -> None:
        """Stop its brokers."""
        self._close_view()
        self._pool.close()

    def _run_tool(self, *words: str) -> None:
        command = [*COMMAND, *words, *connections_of(self._endpoints, self._pool.name, self.url)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)
        if done.returncode:
            raise OperationError("Other", "subscriptions", done.stderr.strip())
