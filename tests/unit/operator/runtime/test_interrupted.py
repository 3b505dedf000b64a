"""Whatever request of the operator goes wrong, and however: in the end everything is as if nothing had gone wrong.

Each scenario begins with a world at rest and a running operator, to whom users then give something to do. It is done once
undisturbed; then once for each request and each way in which that one can go wrong (in the quick form for some of them), and
either the same process or a new one continues.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from readonly_operator.cluster import background, fetch, source
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import BINDING, POD, POOL, kind_of
from readonly_operator.kube.names import MANAGER_EXPLICIT_LAC, OPERATOR
from readonly_operator.runtime import controller as module
from readonly_operator.runtime.controller import Controller
from readonly_operator.settings import Settings

from tests.support.admission import Policies, Request
from tests.unit.operator.runtime.interrupted_world import (
    LAC_KEY,
    WRITER,
    Fault,
    KilledError,
    Server,
    Wire,
    World,
    copied,
    writable_brokers,
)

ROOT = Path(__file__).parents[4]
QUIET_SECONDS = 17
"""Longer than anything that a single refusal makes the operator wait for."""
MAX_SECONDS = 400
TARGET = {"configMap": {"name": WRITER, "key": LAC_KEY}, "statefulSet": {"name": WRITER}}
SETTINGS = Settings(engine_image="engine", source_check_seconds=5)


class Process:
    """An operator without threads: what they would do is done when the world's clock says so."""

    def __init__(self, world: World, wire: Wire) -> None:
        self.world = world
        self.controller: Any = None
        self._server = Server(world, wire)

    def step(self) -> None:
        """Do what is due. What ends the process is raised."""
        if self.controller is None:
            self._start()
        else:
            for kind, event, body in self.world.events:
                self.controller.observe(kind, event, body)
        self.world.events.clear()
        if self.controller is None:
            return
        self.controller._context.lac.sync()
        self.controller._context.registrations.sync()
        for checked, due in list(self.controller._clusters.sources._due.items()):
            if due <= self.world.seconds:
                self.controller._clusters.sources._check(checked)
        while (key := self.controller._queue.get(timeout=0)) is not None:
            try:
                self.controller._reconcile(key)
            finally:
                self.controller._queue.done(key)

    def _start(self) -> None:
        made = Controller(self._server, SETTINGS)
        try:
            made.resync()
        except KubeError:
            made._brokers.close()  # and it is tried again
        else:
            self.controller = made

    def end(self) -> None:
        if self.controller is not None:
            self.controller._brokers.close()
            self.controller = None


def run(world: World, wire: Wire, process: Process, *, follow: bool) -> None:
    """Let the world come to rest.

    Args:
        world: with a task in it.
        wire: of the process.
        process: which runs already.
        follow: whether a process that was refused something is followed by another one.
    """
    last, since = None, world.seconds
    for _ in range(MAX_SECONDS):
        before = len(wire.requests)
        try:
            process.step()
        except KilledError:
            process.end()
        if follow and before <= wire.at < len(wire.requests):
            process.end()
        world.tick()
        if world._version != last:
            last, since = world._version, world.seconds
        elif world.seconds - since > QUIET_SECONDS:
            return
    raise AssertionError("it does not come to rest")


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patched:
        yield patched


@pytest.fixture
def bring(patch):
    """Gives modules that look at a clock, roll dice or speak HTTP those of a world."""

    def to(world: World, wire: Wire) -> Process:
        patch.undo()  # else it would keep every world
        patch.setattr(module, "_now", world.now)
        for name in ("WorkQueue", "Brokers", "Recorder", "LocalityAnnotator", "StatusThrottle", "RolloutBudget"):
            patch.setattr(module, name, partial(getattr(module, name), clock=world.clock))
        for one in (module, source):
            patch.setattr(one, "random", SimpleNamespace(uniform=lambda *_: 1.0))
        patch.setattr(source, "connect", nothing)
        for one in (background, source):
            patch.setattr(one, "time", SimpleNamespace(monotonic=world.clock))
        patch.setattr(fetch, "_exchange", lambda method, url, body, *_: world.exchange(wire, method, url, body))
        return Process(world, wire)

    return to


@dataclass(frozen=True)
class Scenario:
    """What users do.

    Attributes:
        before: to an empty world with two owner brokers, which then comes to rest.
        task: what goes wrong.
    """

    before: Callable[[World, Any, Any], None]
    task: Callable[[World, Any, Any], None]


def nothing(*_: Any) -> None:
    pass


RICH = {
    "replicas": 2,
    "locality": {"nodeLabels": ["topology.kubernetes.io/zone"]},
    "networkPolicy": {},
    "monitoring": {"podMonitor": {"interval": "30s"}},
    "listeners": {"external": {"host": "{broker}.example.com"}},
}


def create(world, pool, binding):
    world.user_applies(pool("other", replicas=1))
    world.user_applies(binding("orders", "demo", ["persistent://public/default/orders"]))
    world.user_applies(binding("rival", "other", ["persistent://public/default/ord.*"]))
    world.user_applies(pool(**RICH))


def change(world, pool, _):
    spec = {**RICH, "replicas": 3, "cache": {"size": "128Mi"}, "disruptionBudget": {"enabled": False}}
    del spec["networkPolicy"]
    world.user_applies(pool(**spec))


def rebind(world, pool, binding):
    world.user_deletes(BINDING, "orders")
    world.user_applies(
        binding("rival", "other", ["persistent://public/default/orders", "persistent://public/default/o2"])
    )
    world.user_applies(binding("returns", "demo", ["persistent://public/default/returns"]))


def delete(world, pool, _):
    world.user_deletes(POOL, "demo")


def managed(interval="200ms", on_deletion="Restore", **spec):
    lac = {"management": "Manage", "interval": interval, "target": TARGET, "onDeletion": on_deletion}
    return {"replicas": 0, "explicitLac": lac, **spec}


def manage(world, pool, _):
    world.user_applies(pool(**managed(lookup={"clusterName": "readers"})))


def sooner(world, pool, _):
    world.user_applies(pool(**managed("100ms", lookup={"clusterName": "readers"})))


def keep(world, pool, _):
    world.user_applies(pool(**managed(on_deletion="Keep")))


def manage_only(world, pool, _):
    world.user_applies(pool(**managed()))


def share(world, pool, _):
    world.user_applies(pool(**managed()))
    world.user_applies(pool("other", **managed("100ms")))


SCENARIOS = {
    "create": Scenario(nothing, create),
    "change": Scenario(create, change),
    "rebind": Scenario(create, rebind),
    "delete": Scenario(create, delete),
    "manage": Scenario(nothing, manage),
    "manage sooner": Scenario(manage, sooner),
    "let go": Scenario(manage_only, keep),
    "restore": Scenario(manage, delete),
    "one of two is deleted": Scenario(share, delete),
}


@pytest.fixture
def scene(bring, pool_body, binding_body):
    """Plays a scenario, with what goes wrong."""
    resting: dict[str, World] = {}

    def pool(name="demo", **spec):
        return bare(pool_body(name, **spec))

    def binding(*args):
        return bare(binding_body(*args))

    def at_rest(name: str) -> World:
        if name not in resting:
            world, wire = World(), Wire()
            writable_brokers(world)
            SCENARIOS[name].before(world, pool, binding)
            process = bring(world, wire)
            run(world, wire, process, follow=False)
            process.end()
            world.events.clear()
            world.evicted.clear()
            world.history.clear()
            resting[name] = world
        return copied(resting[name])

    def play(name: str, at: int = -1, fault: Fault | None = None, *, follow: bool = True) -> tuple[World, list[str]]:
        world, wire = at_rest(name), Wire()
        process = bring(world, wire)
        process.step()
        SCENARIOS[name].task(world, pool, binding)
        wire.breaks(at, fault)
        run(world, wire, process, follow=follow)
        process.end()
        return world, wire.requests

    return play


def bare(body):
    metadata = {name: body["metadata"][name] for name in ("name", "namespace")}
    return {**body, "metadata": metadata}


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (found.get(name), wanted.get(name))
        for name in found.keys() | wanted.keys()
        if found.get(name) != wanted.get(name)
    }


WAYS = [(fault, follow) for fault in Fault for follow in ((True,) if fault.kills else (True, False))]


def check(scene: Any, name: str, choose: Callable[[int], tuple[tuple[Fault, bool], ...]]) -> None:
    """Play a scenario undisturbed, then with one request broken.

    Args:
        scene: plays it.
        name: of the scenario.
        choose: in which ways a request goes wrong, by its number: how, and whether another process continues.
    """
    undisturbed, requests = scene(name)
    wanted = undisturbed.state()
    for at, (fault, follow) in ((number, way) for number in range(len(requests)) for way in choose(number)):
        world, made = scene(name, at, fault, follow=follow)
        who = "another process" if follow else "the same one"
        where = f"request {at} ({made[at]}): {fault.value}; {who} continues"
        found = world.state()
        assert found == wanted, f"{where}: {differences(found, wanted)}"
        for key, states in world.history.items():
            assert set(states) <= set(undisturbed.history.get(key, ())), f"{where}: {key} was {states}"


def test_what_is_compared_with_is_right(scene):
    made = scene("create")[0].state()
    assert {
        "StatefulSet/team/demo",
        "StatefulSet/team/other",
        "PodMonitor/team/demo",
        "Service/team/demo-broker-1",
    } <= set(made)
    assert all("name: team/orders" in made["brokers hold"][pod] for pod in ("demo-0", "demo-1"))
    managed_once = scene("manage")[0].state()
    assert (managed_once["evicted"], managed_once["writer runs with"]) == (["writer-0", "writer-1"], ["200", "200"])
    assert set(managed_once["clusters"]) == {"readers"}
    restored = scene("restore")[0].state()
    assert (restored["evicted"], restored["writer runs with"]) == (["writer-0", "writer-1"], ["0", "0"])
    assert (restored["clusters"], restored["ConfigMap/team/writer"]["data"]) == ({}, {LAC_KEY: "0"})
    assert not any("demo" in name for name in restored)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_admission_policies_refuse_nothing_that_the_operator_does(scene, monkeypatch, name):
    """manifests/admission-policy, with everything that the operator writes and deletes. A status is another resource."""
    policies, asked = Policies(ROOT / "manifests" / "admission-policy"), []
    write, delete = World.write, Server.delete

    def written(world, body, manager):
        known = world.objects.get((body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]))
        own = manager in {OPERATOR, MANAGER_EXPLICIT_LAC}
        if own and (known is None or {**known, "status": 0} != {**body, "status": 0}):
            sub = "status" if kind_of(body) == POD else ""  # annotations
            asked.append(
                Request(kind_of(body), "UPDATE" if known else "CREATE", copied(body), copied(known), subresource=sub)
            )
        return write(world, body, manager)

    def deleted(server, manifest):
        asked.append(Request(kind_of(manifest), "DELETE", old=copied(manifest)))
        return delete(server, manifest)

    monkeypatch.setattr(World, "write", written)
    monkeypatch.setattr(Server, "delete", deleted)
    scene(name)
    assert asked
    refused = {(one.operation, one.kind.kind): policies.refusals(one) for one in asked}
    assert {key: messages for key, messages in refused.items() if messages} == {}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name == "manage" else name for name in SCENARIOS]
)
def test_nothing_that_goes_wrong_once_is_seen_in_the_end(scene, name):
    check(scene, name, lambda at: () if at % 4 else (WAYS[at // 4 % len(WAYS)],))


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_that_goes_wrong_anywhere_is_seen_in_the_end(scene, name, fault):
    check(scene, name, lambda _: tuple(way for way in WAYS if way[0] is fault))
