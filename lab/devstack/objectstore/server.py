"""An object store as a process that outlives the command that started it."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.common import processes
from devstack.common.processes import Server
from devstack.objectstore.program import ensure_program
from devstack.pulsar import preflight
from devstack.pulsar.spec import HOST

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_PORT: Final = 19000
ACCESS_KEY: Final = "devstack"
SECRET_KEY: Final = "devstack-secret"  # noqa: S105 - of a store on loopback that holds test data
REGION: Final = "us-east-1"
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """An object store by its name and port. Buckets are folders of its data.

    Attributes:
        name: its state folder is named after it.
        port: where it listens on 127.0.0.1.
    """

    name: str = "default"
    port: int = DEFAULT_PORT

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{HOST}:{self.port}"

    @property
    def root(self) -> Path:
        """Its state folder."""
        return cache_root() / "objectstore" / "stores" / self.name

    @property
    def data(self) -> Path:
        """The folder of the buckets."""
        return self.root / "data"

    def up(self, *buckets: str) -> None:
        """Start it unless it runs, wait until it is ready, and create these buckets.

        Raises:
            DevstackError: it cannot be built, the port is taken, or it does not come up.
        """
        for bucket in buckets:
            # A folder is a bucket to a server of one drive; one made before the start needs no client.
            (self.data / bucket).mkdir(parents=True, exist_ok=True)
        server = self._server()
        live = server.running()
        if live is not None and live.fingerprint != server.fingerprint:
            self.down()
            live = None
        if live is None:
            preflight.check_ports([("the object store", self.port)])
            server.start()
        server.await_ready(self.ready, _START_SECONDS)

    def down(self, *, purge: bool = False) -> None:
        """Stop it.

        Args:
            purge: whether to delete the objects too.
        """
        processes.stop([self.record], _STOP_SECONDS)
        if purge:
            shutil.rmtree(self.root, ignore_errors=True)

    def ready(self) -> bool:
        """Whether it answers its health check."""
        try:
            with urllib.request.urlopen(f"{self.endpoint}/minio/health/ready", timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    @property
    def record(self) -> Path:
        """Its pid file."""
        return self.root / "minio.pid"

    def _server(self) -> Server:
        program = ensure_program()
        self.data.mkdir(parents=True, exist_ok=True)
        return Server(
            name="object store",
            port=self.port,
            argv=(str(program), "server", "--quiet", "--address", f"{HOST}:{self.port}", str(self.data)),
            env={
                "MINIO_ROOT_USER": ACCESS_KEY,
                "MINIO_ROOT_PASSWORD": SECRET_KEY,
                "MINIO_REGION": REGION,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",
            },
            record=self.record,
            log=self.root / "minio.log",
            config="",
        )
