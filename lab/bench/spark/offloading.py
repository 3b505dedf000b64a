"""Topics of the Spark bench that are read from an object store, as both sources of Pulsar prefer to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError
from devstack.objectstore.server import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from devstack.pulsar.admin import MessageId
from devstack.pulsar.distribution import ensure_offloaders
from devstack.pulsar.spec import DEFAULT_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.pulsar.cluster import PulsarCluster

BUCKET: Final = "bench"
ENVIRONMENT: Final = {"ACCESS_KEY_ID": ACCESS_KEY, "ACCESS_KEY_SECRET": SECRET_KEY}
"""Variables of the broker: its offloader takes its credentials from there."""

NAMESPACE: Final = "public/offloaded"
_DEADLINE_S: Final = 900.0


class Offloading:
    """An object store, and a namespace that offloads to it.

    Args:
        stack: the running Pulsar, with ENVIRONMENT.
        port: port of the object store.
        folder: for the credentials.
    """

    def __init__(self, stack: PulsarCluster, port: int, folder: Path) -> None:
        self.store = ObjectStore("bench-spark", port)
        self._admin = stack.admin()
        self._credentials = folder / "credentials"

    def up(self) -> None:
        """Start the store, and create the namespace."""
        self.store.up(BUCKET)
        text = f"[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n"
        self._credentials.write_text(text, encoding="utf-8")
        self._admin.create_namespace(NAMESPACE)
        self._admin.set_retention(NAMESPACE, minutes=600, megabytes=20_000)
        self._admin.set_offload_policies(
            NAMESPACE,
            {
                "managedLedgerOffloadDriver": "S3",
                "offloadersDirectory": str(ensure_offloaders(DEFAULT_VERSION)),
                "managedLedgerOffloadBucket": BUCKET,
                "managedLedgerOffloadServiceEndpoint": self.store.endpoint,
                "managedLedgerOffloadRegion": REGION,
            },
        )

    @property
    def options(self) -> dict[str, str]:
        """Options of the source."""
        return {"tieredStorage.credentialsFile": str(self._credentials)}

    def offload(self, topic: str) -> None:
        """Offload all ledgers of a topic but the empty one in use.

        Raises:
            DevstackError: this failed or takes too long.
        """
        self._admin.unload(topic)
        # The last message is in the last full ledger, which would stay; this is the empty one after it.
        in_use = self._admin.internal_stats(topic)["ledgers"][-1]
        self._admin.offload(topic, MessageId(in_use["ledgerId"], 0))
        deadline = time.monotonic() + _DEADLINE_S
        while (status := self._admin.offload_status(topic))["status"] != "SUCCESS":
            if status["status"] == "ERROR" or time.monotonic() > deadline:
                raise DevstackError(f"{topic} was not offloaded: {status}", "see the broker's log")
            time.sleep(0.5)  # the admin API does not tell when it ends
        left = [one for one in self._admin.internal_stats(topic)["ledgers"] if one["entries"] and not one["offloaded"]]
        if left:
            raise DevstackError(f"{topic}: ledger {left[0]['ledgerId']} was not offloaded", "see the broker's log")
