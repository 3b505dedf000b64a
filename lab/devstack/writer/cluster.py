"""The source cluster: a metadata store, two bookies and one or two brokers, with few changes of stock settings."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.images.builders import build, load
from devstack.images.targets import TARGETS
from devstack.kube.choice import choose
from devstack.kube.manifest import fill
from devstack.pulsar.spec import BOOKIES_NAMESPACE, DEFAULT_METADATA, OXIA, OXIA_NAMESPACE, ZOOKEEPER
from devstack.writer.registration import wait_until_registered

if TYPE_CHECKING:
    from devstack.kube.kubectl import Kubectl

_MANIFESTS = Path(__file__).parent / "manifests"
_ROLLOUT_DEADLINE = 180
_HOSTNAME = "kubernetes.io/hostname"
# Quick to start and small: six Java processes share the machine with everything else.
# Pulsar's own scripts prefer IPv4, which an IPv6-only cluster has not; the last setting counts.
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto -Djava.net.preferIPv4Stack=false"
MAX_BROKERS = 2
MAX_EXPLICIT_LAC_MS = 60_000
_ZOOKEEPER_PORT = 2181
_OXIA_PORT = 6648
METADATA_SETS = {ZOOKEEPER: ("pulsar-zookeeper",), OXIA: ("pulsar-oxia", "pulsar-oxia-coordinator")}
"""StatefulSets of each metadata store; the first one has the data."""


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """The specification of the source cluster.

    Attributes:
        namespace: the Kubernetes namespace, for this cluster only.
        brokers: number of brokers.
        explicit_lac_ms: interval at which brokers write the explicit LAC, in ms; 0 is off, as in a stock Pulsar.
        metadata: the metadata store, zookeeper or oxia.
    """

    namespace: str = "pulsar"
    brokers: int = 2
    explicit_lac_ms: int = 100
    metadata: str = DEFAULT_METADATA

    def __post_init__(self) -> None:
        if not 1 <= self.brokers <= MAX_BROKERS:
            raise DevstackError(f"--brokers must be between 1 and {MAX_BROKERS}, not {self.brokers}")
        if not 0 <= self.explicit_lac_ms <= MAX_EXPLICIT_LAC_MS:
            raise DevstackError(
                f"--explicit-lac-ms must be between 0 (off) and {MAX_EXPLICIT_LAC_MS}, not {self.explicit_lac_ms}"
            )
        if self.metadata not in METADATA_SETS:
            raise DevstackError(f"METADATA must be {' or '.join(METADATA_SETS)} for a demo, not {self.metadata}")

    def metadata_store(self, domain: str = "", namespace: str = OXIA_NAMESPACE) -> str:
        """Return the URL of the metadata store.

        Args:
            domain: follows the names of services, such as `.pulsar.svc.cluster.local`; empty inside the cluster's namespace.
            namespace: namespace in Oxia.
        """
        if self.metadata == OXIA:
            return f"oxia://pulsar-oxia{domain}:{_OXIA_PORT}/{namespace}"
        return f"zk:pulsar-zookeeper{domain}:{_ZOOKEEPER_PORT}"


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """The status of the cluster.

    Attributes:
        namespace: where.
        ready: ready pods of each StatefulSet.
        wanted: wanted pods of each StatefulSet.
        service_url: for clients in the cluster.
        admin_url: of the admin API, in the cluster.
        metadata_store: the metadata store, in the cluster.
        bookkeeper_metadata_store: that of the bookies.
    """

    namespace: str
    ready: dict[str, int]
    wanted: dict[str, int]
    service_url: str
    admin_url: str
    metadata_store: str
    bookkeeper_metadata_store: str

    @property
    def up(self) -> bool:
        """Whether every part has all its pods ready."""
        return bool(self.wanted) and self.ready == self.wanted

    def as_json(self) -> dict[str, Any]:
        """Return the status for --json."""
        return {"up": self.up, **asdict(self)}

    def lines(self) -> list[str]:
        """Return the status as lines of text."""
        if not self.wanted:
            return [f"writer: there is none in namespace {self.namespace}"]
        lines = [f"writer in namespace {self.namespace}: {'up' if self.up else 'not ready'}"]
        lines += [f"  {name}: {self.ready[name]} of {wanted} ready" for name, wanted in self.wanted.items()]
        return [*lines, f"  {self.service_url}", f"  {self.admin_url}", f"  {self.metadata_store}"]


@dataclass(frozen=True, slots=True)
class Home:
    """The node with the data of ZooKeeper and the bookies; their pods always run there.

    Attributes:
        node: the node's name.
        folder: the folder on it.
    """

    node: str
    folder: str


def render(name: str, spec: WriterSpec, image: str, home: Home, oxia_image: str = "") -> str:
    """Return one of the manifests with its values.

    Args:
        name: name of its file without .yaml.
        spec: specification of the cluster.
        image: image of Pulsar.
        home: location of the data.
        oxia_image: image of Oxia.
    """
    bookies = spec.metadata_store(namespace=BOOKIES_NAMESPACE)
    text = (_MANIFESTS / f"{name}.yaml").read_text()
    return fill(
        text,
        NAMESPACE=spec.namespace,
        BROKERS=spec.brokers,
        EXPLICIT_LAC_MS=spec.explicit_lac_ms,
        IMAGE=image,
        DATA=home.folder,
        NODE=home.node,
        JVM=_JVM,
        OXIA_IMAGE=oxia_image,
        METADATA=spec.metadata_store(),
        BOOKKEEPER_METADATA=bookies,
        BROKER_BOOKKEEPER=f"metadata-store:{bookies}" if spec.metadata == OXIA else "",
    )


def up(spec: WriterSpec) -> WriterStatus:
    """Start or update the cluster by its specification, and wait until it is ready.

    Raises:
        DevstackError: no Kubernetes runs, or a part is not ready in time; the hint has the state of its pods.
    """
    kubectl = _kubectl()
    again = kubectl.succeeds("-n", spec.namespace, "get", "statefulset/pulsar-bookie")
    image, *others = build([TARGETS["pulsar"], *([TARGETS["oxia"]] if spec.metadata == OXIA else [])])
    for one in (image, *others):
        load(one)
    kubectl.apply(fill((_MANIFESTS / "namespace.yaml").read_text(), NAMESPACE=spec.namespace))
    # A folder for each creation of the namespace: stored data of an earlier cluster do not match new metadata.
    life = kubectl.json("get", "namespace", spec.namespace)["metadata"]["uid"]
    home = Home(_data_node(kubectl, spec), f"/var/lib/pulsar-readonly/{life}")
    _refuse_other_metadata(kubectl, spec)
    with step(f"{spec.metadata} starts"):
        kubectl.apply(render(spec.metadata, spec, image, home, *others))
        for name in METADATA_SETS[spec.metadata]:
            _rollout(kubectl, spec, name)
    _initialize(kubectl, spec, render("init", spec, image, home))
    with step(f"2 bookies and {spec.brokers} broker{'s' if spec.brokers > 1 else ''} start"):
        kubectl.apply(render("bookkeeper", spec, image, home))
        kubectl.apply(render("broker", spec, image, home))
        wait_until_registered(kubectl, spec.namespace, again=again)
        _rollout(kubectl, spec, "pulsar-bookie")
        _rollout(kubectl, spec, "pulsar-broker")
    found = status(spec.namespace)
    say(f"the source cluster is up: {found.service_url}")
    return found


def down(namespace: str) -> None:
    """Delete the cluster with its namespace and wait until both are gone."""
    kubectl = _kubectl()
    everything = ("-n", namespace, "delete", "--all", "--wait=false", "--timeout=30s")
    with step(f"deleting the source cluster and its namespace {namespace}"):
        # Brokers that lose their bookies first would use all of their grace period.
        kubectl.run(*everything, "statefulsets", "--cascade=orphan")
        kubectl.run(*everything, "pods", "--grace-period=1")
        kubectl.run("delete", "namespace", namespace, "--ignore-not-found", "--timeout=150s", timeout=160)


def status(namespace: str) -> WriterStatus:
    """Return the status of the cluster."""
    ready: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for item in _kubectl().json("-n", namespace, "get", "statefulsets", "-l", "app=pulsar,release=pulsar")["items"]:
        name = item["metadata"]["name"]
        wanted[name] = item["spec"]["replicas"]
        ready[name] = item["status"].get("readyReplicas", 0)
    domain = f".{namespace}.svc.cluster.local"
    spec = WriterSpec(namespace, metadata=OXIA if METADATA_SETS[OXIA][0] in wanted else ZOOKEEPER)
    return WriterStatus(
        namespace=namespace,
        ready=ready,
        wanted=wanted,
        service_url=f"pulsar://pulsar-broker{domain}:6650",
        admin_url=f"http://pulsar-broker{domain}:8080",
        metadata_store=spec.metadata_store(domain),
        bookkeeper_metadata_store=spec.metadata_store(domain, BOOKIES_NAMESPACE),
    )


def _kubectl() -> Kubectl:
    cluster = choose()
    if not cluster.status().up:
        raise DevstackError("writer: no Kubernetes runs", "start it with: python -m devstack kube up")
    return cluster.kubectl()


def _data_node(kubectl: Kubectl, spec: WriterSpec) -> str:
    """Return the node of the data; for a new cluster the first schedulable node.

    Raises:
        DevstackError: no node is schedulable.
    """
    found = kubectl.run(
        "-n", spec.namespace, "get", "statefulset", METADATA_SETS[spec.metadata][0], "--ignore-not-found", "-o", "json"
    )
    selector = json.loads(found)["spec"]["template"]["spec"].get("nodeSelector", {}) if found.strip() else {}
    if _HOSTNAME in selector:
        return str(selector[_HOSTNAME])
    for node in sorted(kubectl.json("get", "nodes")["items"], key=lambda one: str(one["metadata"]["name"])):
        taints = {taint["effect"] for taint in node["spec"].get("taints", [])}
        if not taints & {"NoSchedule", "NoExecute"}:
            return str(node["metadata"]["labels"][_HOSTNAME])
    raise DevstackError(
        "writer: no node is schedulable", "see: kubectl describe nodes; a drained node needs kubectl uncordon"
    )


def _refuse_other_metadata(kubectl: Kubectl, spec: WriterSpec) -> None:
    """Refuse a cluster that was made on another metadata store: its bookies have data that the new one does not know.

    Raises:
        DevstackError: it was.
    """
    for metadata, sets in METADATA_SETS.items():
        if metadata != spec.metadata and kubectl.succeeds("-n", spec.namespace, "get", f"statefulset/{sets[0]}"):
            raise DevstackError(
                f"writer: the cluster in namespace {spec.namespace} is on {metadata}, not on {spec.metadata}",
                "start over with: make clean-demo, then make demo-kubernetes",
            )


def _initialize(kubectl: Kubectl, spec: WriterSpec, manifest: str) -> None:
    """Run the initialising job to its end, unless it has succeeded before."""
    job = ("-n", spec.namespace, "get", "job", "pulsar-pulsar-init", "--ignore-not-found")

    def succeeded() -> bool:
        found = kubectl.run(*job, "-o", "json").strip()
        return bool(found) and json.loads(found)["status"].get("succeeded", 0) > 0

    if succeeded():
        return
    with step("metadata is written"):
        kubectl.run("-n", spec.namespace, "delete", "job", "pulsar-pulsar-init", "--ignore-not-found", timeout=90)
        kubectl.apply(manifest)
        deadline = time.monotonic() + _ROLLOUT_DEADLINE
        while not succeeded():
            if time.monotonic() >= deadline:
                raise DevstackError("writer: the job pulsar-pulsar-init has not succeeded", _pods(kubectl, spec))
            time.sleep(0.3)


def _rollout(kubectl: Kubectl, spec: WriterSpec, name: str) -> None:
    try:
        kubectl.run(
            *("-n", spec.namespace, "rollout", "status", f"statefulset/{name}", f"--timeout={_ROLLOUT_DEADLINE}s"),
            timeout=_ROLLOUT_DEADLINE + 10,
        )
    except DevstackError as error:
        raise DevstackError(
            f"writer: {name} is not ready after {_ROLLOUT_DEADLINE} s ({error})", _pods(kubectl, spec)
        ) from error


def _pods(kubectl: Kubectl, spec: WriterSpec) -> str:
    return kubectl.run("-n", spec.namespace, "get", "pods", "-o", "wide").strip().replace("\n", "\n  ")
