"""An etcd, a kube-apiserver and Kubernetes' controller of StatefulSets, without nodes."""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import urllib3
import yaml

from devstack.kube import programs
from devstack.kube.layout import default_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

FIRST_PORT = 23750
"""First of three ports: the API server's, and etcd's two."""
START_SECONDS = 120.0
STOP_SECONDS = 30.0
WATCH_SECONDS = 300
THREADS = 16
OPERATOR = "operator"
"""The user whose requests are counted: only the operator's process has its token."""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [OPERATOR]}, {"level": "None"}],
}


class ScaleError(Exception):
    """A process did not start, or an object did not settle in time."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running API server.

    Attributes:
        folder: its files.
        token: token of an administrator.
        port: port of the API server, on 127.0.0.1.
    """

    folder: Path
    token: str
    port: int

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator."""
        return self.folder / "admin.kubeconfig"

    @property
    def operators_kubeconfig(self) -> Path:
        """Kubeconfig of the operator's process."""
        return self.folder / "operator.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Log of every request of the operator, one JSON object per line."""
        return self.folder / "audit.log"

    def client(self) -> Client:
        """Return a client with an administrator's rights."""
        return Client(f"https://127.0.0.1:{self.port}", self.token, self.folder / "apiserver.crt")


class Client:
    """Client of the API server for concurrent requests."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self._url = url
        context = ssl.create_default_context(cafile=str(authority))
        headers = {"Authorization": f"Bearer {token}"}
        self._http = urllib3.PoolManager(maxsize=THREADS, ssl_context=context, headers=headers, timeout=60.0)

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Send one request.

        Raises:
            ScaleError: the API server refused it.
        """
        data = None if body is None else json.dumps(body).encode()
        answer = self._http.request(
            method, self._url + path, body=data, headers={**self._http.headers, "Content-Type": kind}
        )
        if answer.status >= 300:
            raise ScaleError(f"{method} {path}: {answer.status} {answer.data[:500].decode()}")
        return json.loads(answer.data)

    def create(self, objects: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Create objects, each with the path of its kind."""
        with ThreadPoolExecutor(THREADS) as threads:
            for _ in threads.map(lambda one: self.request("POST", one[0], one[1]), objects):
                pass

    def merge(self, patches: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Apply merge patches, each with the path of its object."""
        with ThreadPoolExecutor(THREADS) as threads:
            for _ in threads.map(
                lambda one: self.request("PATCH", one[0], one[1], "application/merge-patch+json"), patches
            ):
                pass

    def watch(self, path: str, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield type and object of each event after a version, for some minutes at most."""
        query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        answer = self._http.request(
            "GET",
            self._url + path + query,
            preload_content=False,
            timeout=urllib3.Timeout(connect=60.0, read=WATCH_SECONDS + 30.0),
        )
        try:
            if answer.status >= 300:
                raise ScaleError(f"watch {path}: {answer.status} {answer.read(500).decode()}")
            rest = b""
            for part in answer.stream(1 << 16):
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    yield event["type"], event["object"]
        finally:
            answer.close()

    def list(self, path: str) -> list[dict[str, Any]]:
        """Return all objects of a kind from the API server's cache."""
        items: list[dict[str, Any]] = self.request("GET", f"{path}?resourceVersion=0")["items"]
        return items


@contextmanager
def control_plane(
    folder: Path, first_port: int = FIRST_PORT, controllers: Sequence[str] = ("statefulset-controller",)
) -> Iterator[ControlPlane]:
    """Run a control plane in a context, on this and the next two ports.

    Args:
        folder: for its files.
        first_port: the API server's; the next two are etcd's.
        controllers: of Kubernetes that run; by default the one that makes the pods of StatefulSets.

    Raises:
        ScaleError: it did not start.
    """
    layout = default_layout()
    bin_folder = programs.ensure(layout, programs.OLDEST_KUBE if layout.release else programs.KUBE)
    plane = ControlPlane(folder, secrets.token_hex(16), first_port)
    operators = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(
        f'{plane.token},admin,admin,"system:masters"\n{operators},{OPERATOR},{OPERATOR},"operators"\n'
    )
    (folder / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
    for command in (("genrsa", "-out", "sa.key", "2048"), ("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True, timeout=60)
    client_url, peer_url = f"http://127.0.0.1:{first_port + 1}", f"http://127.0.0.1:{first_port + 2}"
    etcd = [
        *("--name=scale", f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
        *(f"--listen-client-urls={client_url}", f"--advertise-client-urls={client_url}"),
        *(f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}"),
        f"--initial-cluster=scale={peer_url}",
    ]
    apiserver = [
        *(f"--etcd-servers={client_url}", f"--secure-port={first_port}", "--bind-address=127.0.0.1"),
        *(f"--cert-dir={folder}", f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC"),
        *(
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
        ),
        *(f"--service-account-key-file={folder / 'sa.pub'}", f"--service-account-signing-key-file={folder / 'sa.key'}"),
        *(f"--audit-policy-file={folder / 'audit-policy.yaml'}", f"--audit-log-path={plane.audit_log}"),
    ]
    with ExitStack() as stack:
        stack.enter_context(_running(folder, bin_folder / "etcd", etcd))
        process = stack.enter_context(_running(folder, bin_folder / "kube-apiserver", apiserver))
        _wait_until_ready(plane, process)
        _write_kubeconfig(plane, plane.kubeconfig, plane.token)
        _write_kubeconfig(plane, plane.operators_kubeconfig, operators)
        stack.enter_context(_running(folder, bin_folder / "kube-controller-manager", _controllers(plane, controllers)))
        yield plane


def _controllers(plane: ControlPlane, controllers: Sequence[str]) -> list[str]:
    """Return the options of a kube-controller-manager with these controllers alone."""
    return [
        *(f"--kubeconfig={plane.kubeconfig}", f"--controllers={','.join(controllers)}", "--leader-elect=false"),
        *("--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-statefulset-syncs=20"),
    ]


def _write_kubeconfig(plane: ControlPlane, path: Path, token: str) -> None:
    server = {"server": f"https://127.0.0.1:{plane.port}", "certificate-authority": str(plane.folder / "apiserver.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "alone",
        "contexts": [{"name": "alone", "context": {"cluster": "alone", "user": "user"}}],
        "clusters": [{"name": "alone", "cluster": server}],
        "users": [{"name": "user", "user": {"token": token}}],
    }
    path.touch(0o600)
    path.write_text(yaml.safe_dump(config))


@contextmanager
def _running(folder: Path, program: Path, options: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{program.name}.log").open("wb") as log:
        process = subprocess.Popen([str(program), *options], stdout=log, stderr=log)
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, or kill it after a timeout."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_ready(plane: ControlPlane, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            plane.client().request("GET", "/api/v1/namespaces/default")
        except (OSError, ScaleError, urllib3.exceptions.HTTPError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                log = (plane.folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
                raise ScaleError(f"the API server did not start: {error}\n{log}") from None
            time.sleep(0.2)
        else:
            return
