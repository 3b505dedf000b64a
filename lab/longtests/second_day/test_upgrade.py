"""From the version before to this one, under traffic: nothing is lost, and pools are replaced within the budget.

    make -C lab test-upgrade FROM=v0.1.0

Both operators and engines are built from their own checkouts. Without FROM the version before is the newest tag.
"""

from __future__ import annotations

import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from devstack.cache import cache_root
from longtests.second_day.conftest import DEPLOYMENT, ROOT, connection, devstack, manifests
from tests.e2e.kubernetes import Kubernetes, eventually
from tests.e2e.traffic import Traffic, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

POOLS: Final = ("demo", "beside", "third")
SETTLED: Final = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}
IMAGE: Final = "localhost/pulsar-readonly"
STARTING_S: Final = 300
UPGRADE_S: Final = 900


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def before(request) -> Iterator[Path]:
    """A checkout of the version before."""
    chosen = request.config.getoption("upgrade_from", None)
    if not chosen:
        tags = git("tag", "--list", "v*", "--sort=-v:refname").splitlines()
        if not tags:
            pytest.skip("there is no tag of a version before; name a commit: make -C lab test-upgrade FROM=COMMIT")
        chosen = tags[0]
    folder = cache_root() / "upgrade" / git("rev-parse", "--short=12", f"{chosen}^{{commit}}")
    if not folder.exists():
        git("worktree", "add", "--detach", str(folder), chosen)
    yield folder
    git("worktree", "remove", "--force", str(folder))


def install(kubernetes: Kubernetes, checkout: Path, tag: str) -> None:
    """Install or upgrade the operator of a checkout, with images of this tag."""
    for image in ("operator", "engine"):
        devstack(1, "image", "build", "--load", "--tag", tag, image, folder=checkout)
    made = kubernetes("kustomize", str(checkout / "manifests" / "overlays" / "devstack"))
    for image in ("operator", "engine"):
        assert f"{IMAGE}/{image}" in made
        made = made.replace(f"{IMAGE}/{image}:dev", f"{IMAGE}/{image}:{tag}")
    kubernetes("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=made)
    kubernetes("rollout", "status", *DEPLOYMENT, "--timeout=240s", timeout=260)


def images(kubernetes: Kubernetes, namespace: str) -> dict[str, set[str]]:
    """The engine's images of each pool's brokers."""
    found: dict[str, set[str]] = {}
    for pod in kubernetes.list("pods", namespace, "pulsar-readonly.io/pool"):
        pool = pod["metadata"]["labels"]["pulsar-readonly.io/pool"]
        found.setdefault(pool, set()).add(pod["spec"]["containers"][0]["image"])
    return found


class Watch(threading.Thread):
    """Counts the pools that replace brokers at once, again and again.

    Args:
        kubernetes: the cluster.
        namespace: of the pools.
    """

    def __init__(self, kubernetes: Kubernetes, namespace: str) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self.looks = 0
        self._ended = threading.Event()
        self._look: Callable[[], list[dict[str, Any]]] = lambda: kubernetes.list("statefulsets", namespace)

    def run(self) -> None:
        """Look until it is stopped."""
        while not self._ended.wait(0.2):
            rolling = [one for one in self._look() if is_rolling(one)]
            self.most = max(self.most, len(rolling))
            self.looks += 1

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()


def is_rolling(stateful_set: dict[str, Any]) -> bool:
    """Whether a broker of the new template exists or is missing, and not all are."""
    status = stateful_set.get("status", {})
    replicas = stateful_set["spec"]["replicas"]
    begun = status.get("updateRevision") != status.get("currentRevision") and status.get("updatedReplicas", 0) > 0
    return begun and (status.get("updatedReplicas", 0) < replicas or status.get("readyReplicas", 0) < replicas)


def test_an_upgrade_under_traffic(cluster, source, before, name, measured) -> None:
    kubernetes = cluster(1)
    devstack(1, "image", "build", "--load", "client")
    install(kubernetes, before, "before")
    kubernetes("create", "namespace", name)
    where = connection(source)
    for pool in POOLS:
        bodies = manifests(name, where, name=pool)
        kubernetes.apply(*(bodies if pool == "demo" else bodies[:1]))
    for pool in POOLS:
        kubernetes.expect("robp", pool, name, SETTLED, timeout=STARTING_S)
    clients = Traffic(kubernetes, name, plan(name, where))
    clients.wait_for_more(eventually)
    assert images(kubernetes, name) == {pool: {f"{IMAGE}/engine:before"} for pool in POOLS}

    watch = Watch(kubernetes, name)
    watch.start()
    began = time.monotonic()
    try:
        install(kubernetes, ROOT, "after")

        def upgraded() -> None:
            assert images(kubernetes, name) == {pool: {f"{IMAGE}/engine:after"} for pool in POOLS}

        eventually(upgraded, UPGRADE_S, every=1)
        for pool in POOLS:
            kubernetes.expect("robp", pool, name, SETTLED, timeout=STARTING_S)
    finally:
        watch.stop()
    took = time.monotonic() - began
    clients.wait_for_more(eventually)
    history = clients.finish()
    history.check()
    history.moves.check()
    assert watch.looks > 10
    assert watch.most == 1, f"{watch.most} pools replaced brokers at once; the budget is one"
    measured(f"upgrade of the operator and {len(POOLS)} pools of 2 in {took:.0f} s: {history.summary()}")
    kubernetes("delete", "namespace", name, "--wait=false")
