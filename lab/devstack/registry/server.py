"""A registry as a process that outlives the command that started it, and the requests in its log."""

from __future__ import annotations

import http.client
import json
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devstack.cache import cache_root
from devstack.common import processes
from devstack.common.processes import Server, port_answers
from devstack.errors import DevstackError
from devstack.registry.program import ensure_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEFAULT_PORT: Final = 15000
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_REQUEST: Final = re.compile(
    r'"(?P<method>[A-Z]+) (?P<path>/v2/\S*) HTTP/[\d.]+" (?P<status>\d{3}) \d+ "[^"]*" "(?P<agent>[^"]*)"'
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request in the registry's log.

    Attributes:
        method: GET, HEAD, PUT, ...
        path: with the query, such as /v2/team/pulsar-readonly-engine/manifests/0.1.0.
        status: of the answer.
        agent: the client's User-Agent, such as containerd/v2.3.7.
    """

    method: str
    path: str
    status: int
    agent: str


def requests_in(log: str) -> Iterator[Request]:
    """Yield the requests in the text of the log, whose lines have the combined format of web servers."""
    for found in _REQUEST.finditer(log):
        yield Request(found["method"], found["path"], int(found["status"]), found["agent"])


def configuration(host: str, port: int, data: Path) -> dict[str, Any]:
    """Return the registry's configuration, which is JSON and so YAML. It has plain HTTP and no login."""
    return {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": False}},
        "storage": {"filesystem": {"rootdirectory": str(data)}, "delete": {"enabled": True}},
        "http": {"addr": f"{host}:{port}"},
    }


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry by its name and address.

    Attributes:
        name: its state folder is named after it.
        host: IPv4 address that it listens on. Nodes of the local Kubernetes have a loopback of their own, so they reach only
            the host's address in their network.
        port: its port there.
    """

    name: str
    host: str
    port: int = DEFAULT_PORT

    @property
    def address(self) -> str:
        """First part of the names of its images."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://{self.address}"

    @property
    def root(self) -> Path:
        """Its state folder."""
        return cache_root() / "registry" / "servers" / self.name

    def up(self) -> None:
        """Start it, empty, and wait until it answers. One that runs under this name is replaced.

        Raises:
            DevstackError: it cannot be built, the port is taken, or it does not come up.
        """
        server = self._server()
        self.down()
        if port_answers(self.port, host=self.host):
            raise DevstackError(
                f"port {self.port} of {self.host} for the registry is in use by another program", "choose another port"
            )
        self.root.mkdir(parents=True)
        (self.root / "config.yml").write_text(server.config, encoding="utf-8")
        server.start()
        server.await_ready(self.ready, _START_SECONDS)

    def down(self) -> None:
        """Stop it, and delete its images."""
        processes.stop([self.root / "registry.pid"], _STOP_SECONDS)
        shutil.rmtree(self.root, ignore_errors=True)

    def ready(self) -> bool:
        """Return whether it answers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)  # never by a proxy
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def requests(self) -> list[Request]:
        """Return all requests since its start."""
        return list(requests_in((self.root / "registry.log").read_text(encoding="utf-8", errors="replace")))

    def _server(self) -> Server:
        return Server(
            name="registry",
            port=self.port,
            argv=(str(ensure_program()), "serve", str(self.root / "config.yml")),
            env={"OTEL_TRACES_EXPORTER": "none"},
            record=self.root / "registry.pid",
            log=self.root / "registry.log",
            config=json.dumps(configuration(self.host, self.port, self.root / "data")),
            host=self.host,
        )
