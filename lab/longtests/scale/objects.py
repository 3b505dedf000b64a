"""Pools, their bindings, and a check that all of them are settled."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtests.scale.control_plane import ScaleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtests.scale.control_plane import Client

API = "/apis/pulsar-readonly.io/v1beta1"
POOLS, BINDINGS = f"{API}/readonlybrokerpools", f"{API}/readonlytopicbindings"


@dataclass(frozen=True, slots=True)
class Load:
    """Numbers of objects.

    Attributes:
        pools: number of pools.
        bindings: number of bindings, the same for each pool.
        namespaces: number of namespaces, with equal numbers of pools.
        sources: `spec.source` of the source clusters, which the pools share.
        brokers: `replicas` of each pool.
        together: whether all topics are in one namespace of Pulsar, so that each expression may match any of them.
    """

    pools: int
    bindings: int
    namespaces: int
    sources: tuple[dict[str, Any], ...]
    brokers: int = 0
    together: bool = False

    def names(self) -> list[str]:
        """Return the names of the namespaces."""
        return [f"scale-{number}" for number in range(self.namespaces)]

    def pool(self, number: int) -> tuple[str, str]:
        """Return the namespace and name of a pool."""
        return f"scale-{number % self.namespaces}", f"pool-{number}"

    def topic(self, pool: str, name: str) -> str:
        """Return the full name of a topic of a pool."""
        return f"persistent://scale/{'all' if self.together else pool}/{name}"

    def all_pools(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield every pool with the path of its kind."""
        for number in range(self.pools):
            namespace, name = self.pool(number)
            spec = {"replicas": self.brokers, "source": self.sources[number % len(self.sources)]}
            yield f"{API}/namespaces/{namespace}/readonlybrokerpools", _body("ReadOnlyBrokerPool", name, spec)

    def all_bindings(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield every binding with the path of its kind. Nine of ten have a topic, the tenth has an expression."""
        for number in range(self.bindings):
            namespace, pool = self.pool(number % self.pools)
            topic = f"orders-{number}-.*" if number // self.pools % 10 == 9 else f"topic-{number}"
            spec = {"poolRef": {"name": pool}, "topics": [self.topic(pool, topic)]}
            body = _body("ReadOnlyTopicBinding", f"binding-{number}", spec)
            yield f"{API}/namespaces/{namespace}/readonlytopicbindings", body

    def changes(self, count: int, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield patches with a new topic for the first bindings, one of each pool; with the paths of the objects."""
        for number in range(count):
            namespace, pool = self.pool(number % self.pools)
            path = f"{API}/namespaces/{namespace}/readonlytopicbindings/binding-{number}"
            yield path, {"spec": {"topics": [self.topic(pool, f"{what}-{number}")]}}


def wait_until_settled(client: Client, load: Load, seconds: float, image: str = "") -> None:
    """Wait until each object is as its current spec says: pools have their brokers and bindings, and brokers hold these.

    Args:
        client: of an administrator.
        load: what there is.
        seconds: the deadline.
        image: the image of all pods; empty for any.

    Raises:
        ScaleError: it took longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    while (lacking := _unsettled(client, load, image)) is not None:
        if time.monotonic() > deadline:
            raise ScaleError(f"not settled after {seconds:.0f} s: {lacking}")
        time.sleep(0.5)


def _unsettled(client: Client, load: Load, image: str) -> str | None:
    pools, bindings = client.list(POOLS), client.list(BINDINGS)
    if (len(pools), len(bindings)) != (load.pools, load.bindings):
        return f"{len(pools)} pools and {len(bindings)} bindings exist"
    for one in (*pools, *bindings):
        if (one.get("status") or {}).get("observedGeneration") != one["metadata"]["generation"]:
            return _name(one)
    expected = (load.bindings // load.pools, "BrokersReady" if load.brokers else "ScaledToZero")
    for one in pools:
        found = (one["status"]["bindings"], _ready(one)["reason"])
        if found != expected:
            return f"{_name(one)}: {found}"
    for one in bindings if load.brokers else ():
        if (ready := _ready(one))["status"] != "True":
            return f"{_name(one)}: {ready}"
    return _outdated(client, load, image) if image else None


def _outdated(client: Client, load: Load, image: str) -> str | None:
    """Return what is wrong with the pods while not all of them have an image and are ready."""
    pods = client.list("/api/v1/pods")
    if len(pods) != load.pools * load.brokers:
        return f"{len(pods)} pods exist"
    for one in pods:
        conditions = (one.get("status") or {}).get("conditions") or ()
        ready = any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)
        if not ready or one["spec"]["containers"][0]["image"] != image:
            return f"{one['metadata']['namespace']}/{one['metadata']['name']}: ready is {ready}"
    return None


def _ready(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in body["status"]["conditions"] if one["type"] == "Ready")
    return found


def _name(body: dict[str, Any]) -> str:
    return f"{body['kind']} {body['metadata']['namespace']}/{body['metadata']['name']}"


def _body(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "pulsar-readonly.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}
