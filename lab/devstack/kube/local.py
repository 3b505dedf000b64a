"""The local Kubernetes: its programs and containers run on nodes that are sets of namespaces of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.cache import content_key
from devstack.common.locks import file_lock
from devstack.common.overlay import storage_drivers
from devstack.common.run import run, succeeds, wait_until
from devstack.console import say
from devstack.errors import DevstackError
from devstack.kube import configs, programs
from devstack.kube.cgroups import Cgroup
from devstack.kube.kubectl import Kubectl
from devstack.kube.layout import SOURCE, Layout, Network, Node
from devstack.kube.leftovers import leftovers
from devstack.kube.manifest import fill
from devstack.kube.node_processes import NodeProcesses
from devstack.kube.nodes import ensure_node, enter, init_name, remove_link, route_pods
from devstack.kube.pki import make_pki
from devstack.kube.preflight import check_free_network, check_machine
from devstack.kube.status import ClusterStatus
from devstack.kube.system_images import SystemImage, ensure_coredns, ensure_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

# kubelet sets these for the whole machine.
_SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Programs and images that a cluster needs."""

    kube: Path
    node: Path
    pause: SystemImage
    coredns: SystemImage


class LocalCluster:
    """One cluster on this machine.

    Args:
        layout: folders of the cluster.
    """

    provider = "local"

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._processes = NodeProcesses(layout.processes, layout.logs)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._layout.kubeconfig

    def kubectl(self) -> Kubectl:
        """Return kubectl for this cluster. It exists after `build`."""
        return Kubectl(str(self._layout.bin / "kubectl"), self._layout.kubeconfig)

    def build(self, extras: Sequence[str] = ()) -> None:
        """Build the programs, the cluster's system images, and the named extras."""
        with self._lock():
            self._build([programs.EXTRAS[name] for name in extras])

    def up(self, nodes: int, name: str) -> None:
        """Start the parts of the cluster that do not run.

        Args:
            nodes: number of nodes; a running cluster can get more, not fewer.
            name: a name to add to the cluster (see `down`).

        Raises:
            DevstackError: the machine is not suitable, or a part did not start.
        """
        with self._lock():
            wanted = max(nodes, len(self._layout.running_nodes()))
            check_machine(self._layout.root, build=not self._built())
            if not self._any_node():
                check_free_network(self._layout.network)
            parts = self._build()
            self._start(self._layout.nodes(wanted), parts)
            self._remember(sorted({*self._names(), name}))
        say(f"Kubernetes is up: export KUBECONFIG={self._layout.kubeconfig}")

    def down(self, *, purge: bool, name: str | None = None) -> None:
        """Stop all processes of the cluster and remove its mounts, links, routes and cgroups.

        Args:
            purge: whether to delete the cluster's state, too. Otherwise `up` starts the same cluster again.
            name: name to remove; the cluster ends with its last name. None ends it with all its names.

        Raises:
            DevstackError: something is left; the text lists it.
        """
        with self._lock():
            left = [other for other in self._names() if name is not None and other != name]
            if left:
                self._remember(left)
                say(f"the cluster keeps running with its other names: {', '.join(left)}")
                return
            self._stop(in_order=not purge)
            self._remember([])
            if purge:
                shutil.rmtree(self._layout.state, ignore_errors=True)
            programs.prune(self._layout)
            found = leftovers(self._layout)
            if found:
                raise DevstackError("kube down has left: " + "; ".join(found))
        say("Kubernetes is down")

    def status(self) -> ClusterStatus:
        """Return the status."""
        kubectl = self.kubectl()
        processes = {process: self._processes.pid(process) for process in self._processes.names()}
        up = bool(processes) and kubectl.succeeds("get", "--raw", "/readyz", "--request-timeout=5s")
        nodes: dict[str, bool] = {}
        version = ""
        if up:
            for node in kubectl.json("get", "nodes")["items"]:
                ready = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
                nodes[node["metadata"]["name"]] = ready.get("Ready") == "True"
            version = json.loads(kubectl.run("get", "--raw", "/version"))["gitVersion"]
        return ClusterStatus(
            provider=self.provider,
            up=up,
            kubeconfig=str(self.kubeconfig),
            kubectl=kubectl.program,
            names=self._names(),
            nodes=nodes,
            processes=processes,
            version=version,
        )

    def load(self, archive: Path, image: str, identity: str) -> bool:
        """Import an image into every node.

        Args:
            archive: a docker-archive or OCI archive.
            image: name of the image.
            identity: key of its content.

        Returns:
            Whether any node lacked the image.
        """
        lacking = [node for node in self._layout.running_nodes() if self._loaded(node, image) != identity]
        parts = programs.NODE.folder(self._layout)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self._import(node, archive, parts), lacking))
        for node in lacking:
            self._mark(node, image).parent.mkdir(parents=True, exist_ok=True)
            self._mark(node, image).write_text(identity)
        return bool(lacking)

    def lacks(self, image: str, identity: str) -> bool:
        """Return whether any node lacks an image with this content."""
        return any(self._loaded(node, image) != identity for node in self._layout.running_nodes())

    # -- building ---------------------------------------------------------------------------------------------------

    def _lock(self) -> AbstractContextManager[None]:
        return file_lock(self._layout.root / "lock", "kube")

    def _built(self) -> bool:
        return all(build.folder(self._layout).exists() for build in self._builds())

    def _builds(self) -> tuple[programs.Build, ...]:
        """Return the builds of the cluster. kubectl is always the newest."""
        return (*programs.CORE, *([programs.OLDEST_KUBE] if self._layout.release else []))

    def _build(self, extras: Sequence[programs.Build] = ()) -> _Parts:
        layout = self._layout
        folders = {build.name: programs.ensure(layout, build) for build in (*self._builds(), *extras)}
        kube = folders.pop(programs.OLDEST_KUBE.name, folders[programs.KUBE.name])
        programs.link_programs(layout, list(folders.values()))
        return _Parts(kube, folders["node"], ensure_pause(layout), ensure_coredns(layout))

    # -- starting ---------------------------------------------------------------------------------------------------

    def _any_node(self) -> bool:
        return any(self._processes.pid(init_name(node)) for node in self._layout.running_nodes())

    def _start(self, nodes: list[Node], parts: _Parts) -> None:
        self._save_sysctls()
        for node in nodes:
            ensure_node(self._layout, self._processes, node, nodes[0])
        make_pki(self._layout, nodes)
        (self._layout.state / "etcd").mkdir(mode=0o700, exist_ok=True)
        first = nodes[0]
        self._run_in(first, "etcd", [str(parts.kube / "etcd"), *configs.etcd(self._layout)], parts)
        self._run_in(
            first,
            "kube-apiserver",
            [str(parts.kube / "kube-apiserver"), *configs.apiserver(self._layout, first)],
            parts,
        )
        with ThreadPoolExecutor() as pool:  # the runtimes start while the API server does
            list(pool.map(lambda node: self._start_runtime(node, parts), nodes))
        say(f"containers can run on {', '.join(node.name for node in nodes)}")
        self._await("kube-apiserver", self._api_ready, 90, "the API server answers")
        manager = [str(parts.kube / "kube-controller-manager"), *configs.controller_manager(self._layout)]
        self._run_in(first, "kube-controller-manager", manager, parts)
        scheduler = [str(parts.kube / "kube-scheduler"), *configs.scheduler(self._layout)]
        self._run_in(first, "kube-scheduler", scheduler, parts)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self._start_node(node, nodes, parts), nodes))
        self._start_dns(parts)

    def _run_in(self, node: Node, name: str, argv: list[str], parts: _Parts) -> bool:
        path = os.pathsep.join((str(parts.kube), str(parts.node), os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
        proxies = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}  # connections in the cluster need no proxy
        env = {variable: value for variable, value in os.environ.items() if variable.lower() not in proxies}
        # A small cluster has memory to spare, and less CPU than it could use.
        env = {"GOGC": "400", **env, "PATH": path}
        return self._processes.ensure(name, argv, wrapper=enter(self._processes, node), env=env)

    def _await(self, process: str, check: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for an effect of one process; raise DevstackError if the process ends before."""

        def checked() -> bool:
            self._processes.require(process)
            return check()

        wait_until(checked, seconds, what, f"see {self._layout.logs / process}.log")

    def _api_ready(self) -> bool:
        return self.kubectl().succeeds("get", "--raw", "/readyz", "--request-timeout=5s")

    def _start_runtime(self, node: Node, parts: _Parts) -> None:
        runc = shutil.which("runc") or "/usr/sbin/runc"
        snapshotter = storage_drivers(node.folder)[1]
        runtime = configs.RuntimeParts(parts.node / "cni", Path(runc), parts.pause.tag, snapshotter)
        config = _write_config(node, "containerd.toml", configs.containerd(node, runtime))
        name = f"{node.name}-containerd"
        self._run_in(node, name, [str(parts.node / "containerd"), "--config", str(config)], parts)
        ctr = [str(parts.node / "ctr"), "-a", str(node.socket), "-n", "k8s.io"]
        self._await(name, lambda: _quietly([*ctr, "version"]), 30, f"containerd on {node.name} answers")
        there = run([*ctr, "image", "ls", "-q"], what=f"listing the images on {node.name}").split()
        for image in (parts.pause, parts.coredns):
            if image.tag not in there:
                self._import(node, image.archive, parts.node)

    def _import(self, node: Node, archive: Path, folder: Path) -> None:
        ctr = [str(folder / "ctr"), "-a", str(node.socket), "-n", "k8s.io"]
        run(
            [*ctr, "image", "import", "--local", "--snapshotter", storage_drivers(node.folder)[1], str(archive)],
            what=f"importing {archive.name} into {node.name}",
            timeout=600,
        )

    def _start_node(self, node: Node, everyone: list[Node], parts: _Parts) -> None:
        (node.folder / "conf" / "resolv.conf").write_text(f"nameserver {node.network.dns_service}\n")
        name = f"{node.name}-kubelet"
        config = _write_config(node, "kubelet.yaml", configs.kubelet(self._layout, node))
        kubeconfig = self._layout.state / f"{node.name}.kubeconfig"
        argv = [f"--config={config}", f"--kubeconfig={kubeconfig}", f"--hostname-override={node.name}"]
        argv += [f"--node-ip={node.address}", "--v=2"]
        begun = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        fresh = self._run_in(node, name, [str(parts.kube / "kubelet"), *argv], parts)
        config = _write_config(node, "kube-proxy.yaml", configs.kube_proxy(self._layout, node))
        proxy = [str(parts.kube / "kube-proxy"), f"--config={config}", "--v=1"]
        self._run_in(node, f"{node.name}-kube-proxy", proxy, parts)
        # As kindnetd in kind: write the CNI configuration, and add routes to the node's subnet of the pod network.
        self._await(name, lambda: bool(self._pods_of(node)), 60, f"{node.name} has its subnet of the pod network")
        pods = self._pods_of(node)
        (node.folder / "cni" / "10-pods.conflist").write_text(configs.cni(node.network, pods))
        route_pods(self._processes, node, everyone, pods)
        # The condition Ready must come from this kubelet, not from an earlier one.
        self._await(name, lambda: self._ready(node, begun if fresh else ""), 90, f"{node.name} is Ready")
        say(f"{node.name} is Ready")

    def _pods_of(self, node: Node) -> str:
        listed = self.kubectl().run("get", "nodes", "-o", "json")
        found = [item for item in json.loads(listed)["items"] if item["metadata"]["name"] == node.name]
        return str(found[0]["spec"].get("podCIDR", "")) if found else ""

    def _ready(self, node: Node, since: str) -> bool:
        conditions = self.kubectl().json("get", "node", node.name)["status"]["conditions"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True" and condition["lastHeartbeatTime"] >= since
            for condition in conditions
        )

    def _start_dns(self, parts: _Parts) -> None:
        manifest = (SOURCE / "manifests" / "coredns.yaml").read_text()
        kubectl = self.kubectl()
        kubectl.apply(fill(manifest, IMAGE=parts.coredns.tag, ADDRESS=self._layout.network.dns_service))
        kubectl.run("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s", timeout=100)
        wait_until(lambda: _dns_answers(self._layout.network), 60, "the cluster's DNS answers")
        say("the cluster's DNS answers")

    # -- stopping ---------------------------------------------------------------------------------------------------

    def _stop(self, *, in_order: bool) -> None:
        nodes = self._layout.running_nodes()
        if in_order:  # for a later `up`: only etcd and containerd have state, so only they must end by SIGTERM
            for node in nodes:
                self._processes.stop(f"{node.name}-kube-proxy", signal.SIGKILL)
                self._processes.stop(f"{node.name}-kubelet", signal.SIGKILL)
                self._processes.stop(f"{node.name}-containerd")
            for name in ("kube-scheduler", "kube-controller-manager", "kube-apiserver"):
                self._processes.stop(name, signal.SIGKILL)
            self._processes.stop("etcd")
        for node in reversed(nodes):  # with a node's first process the kernel ends all others of its PID namespace
            self._processes.stop(init_name(node), signal.SIGKILL)
        for name in self._processes.names():
            self._processes.stop(name, signal.SIGKILL)
        remove_link(self._layout.network.link)
        Cgroup(self._layout.cgroup).remove()
        self._restore_sysctls()

    def _save_sysctls(self) -> None:
        self._layout.state.mkdir(parents=True, exist_ok=True)
        if not self._layout.sysctls.exists():
            values = {name: Path("/proc/sys", name).read_text().strip() for name in _SYSCTLS}
            self._layout.sysctls.write_text(json.dumps(values))

    def _restore_sysctls(self) -> None:
        others = any(other.running_nodes() for other in self._layout.others)
        if self._layout.sysctls.exists() and not others:
            for name, value in json.loads(self._layout.sysctls.read_text()).items():
                Path("/proc/sys", name).write_text(value)
            self._layout.sysctls.unlink()

    # -- records ----------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        try:
            names: list[str] = json.loads((self._layout.state / "names.json").read_text())
        except FileNotFoundError:
            return []
        return names

    def _remember(self, names: list[str]) -> None:
        if self._layout.state.exists():
            (self._layout.state / "names.json").write_text(json.dumps(names))

    def _mark(self, node: Node, image: str) -> Path:
        return node.folder / "images" / image.replace("/", "_")

    def _loaded(self, node: Node, image: str) -> str:
        mark = self._mark(node, image)
        return mark.read_text() if mark.exists() else ""


def _write_config(node: Node, name: str, text: str) -> Path:
    """Write a configuration file under a name with its content key.

    A changed configuration changes the program's command line, which restarts the program. An unchanged file is not written,
    because kube-proxy ends when its file is written.
    """
    stem, _, suffix = name.rpartition(".")
    path = node.folder / "conf" / f"{stem}-{content_key(text)}.{suffix}"
    if not path.exists():
        path.write_text(text)
    return path


def _dns_answers(network: Network) -> bool:
    ident = time.monotonic_ns() & 0xFFFF
    family = socket.AF_INET6 if network.ipv6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.5)
        try:
            asker.sendto(configs.dns_query(configs.API_NAME, ident, ipv6=network.ipv6), (network.dns_service, 53))
            return configs.dns_says(asker.recv(512), ident, network.api_service)
        except OSError:
            return False


def _quietly(argv: list[str]) -> bool:
    return succeeds(argv, timeout=5)
