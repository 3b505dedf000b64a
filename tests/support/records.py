"""Records of the metadata store that others own, which the engine's own store refuses to change."""

import subprocess
from typing import Final

from kazoo.client import KazooClient
from readonly_engine.metadata.url import MetadataUrl, StoreKind

from devstack.oxia.program import ensure_program
from devstack.pulsar.status import Endpoints

_DEADLINE_S: Final = 15.0


def delete_record(endpoints: Endpoints, path: str) -> None:
    """Delete a record of Pulsar or BookKeeper.

    Raises:
        subprocess.CalledProcessError, kazoo.exceptions.KazooException: it cannot be deleted.
    """
    url = MetadataUrl.parse(endpoints.metadata_store)
    if url.kind is StoreKind.OXIA:
        place = ["--service-address", url.hosts, "--namespace", url.root]
        command = [str(ensure_program()), "client", *place, "delete", path]
        subprocess.run(command, check=True, capture_output=True, timeout=_DEADLINE_S)
        return
    zookeeper = KazooClient(f"{url.hosts}{url.root}")
    zookeeper.start(_DEADLINE_S)
    try:
        zookeeper.delete(path)
    finally:
        zookeeper.stop()
        zookeeper.close()
