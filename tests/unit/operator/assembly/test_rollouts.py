"""Pools replace their brokers a few at a time, and a pool that is held replaces none."""

import copy
from dataclasses import replace

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.assembly.former_config import former_config
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.assembly.rollouts import GRANT_SECONDS, STUCK_SECONDS, RolloutBudget
from readonly_operator.kube.digest import digest
from readonly_operator.kube.kinds import CONFIG_MAP, POD, POOL, STATEFUL_SET
from readonly_operator.kube.names import ANNOTATION_CONFIG_HASH, ANNOTATION_TEMPLATE_HASH, LABEL_POOL, PoolKey
from readonly_operator.model.configmaps import config_map
from readonly_operator.model.hold import HELD_PARTITION
from readonly_operator.settings import Settings

from tests.support.yaml_documents import load_yaml

NAMES = ("a", "b", "c")


class World:
    """StatefulSets of pools, and what Kubernetes reports about them."""

    def __init__(self, server, context, put, pool_body):
        self.server, self.context, self.put, self.pool_body = server, context, put, pool_body
        self.now = 0.0
        self.current = {}
        self.versions = 0
        self.restart()

    def restart(self, limit=1):
        self.context = replace(self.context, rollouts=RolloutBudget(self.context.store, limit, lambda: self.now))

    def upgrade(self, image):
        """Another operator comes with another engine."""
        self.context = replace(self.context, settings=Settings(engine_image=image))
        self.restart()

    def apply(self, name, generation=1, **spec):
        body = self.pool_body(name, replicas=2, **spec)
        body["metadata"]["generation"] = generation
        known = self.server.objects.get(("ReadOnlyBrokerPool", name), {})
        self.put(POOL, {**body, **({"status": known["status"]} if "status" in known else {})})

    def reconcile(self, *names):
        for name in names or NAMES:
            reconcile(self.context, PoolKey("team", name))

    def live(self, name):
        return self.context.store.get(STATEFUL_SET, "team", name)

    def image(self, name):
        return self.live(name)["spec"]["template"]["spec"]["containers"][0]["image"]

    def partition(self, name):
        return self.live(name)["spec"]["updateStrategy"].get("rollingUpdate", {}).get("partition", 0)

    def config(self, name):
        return load_yaml(self.context.store.get(CONFIG_MAP, "team", f"{name}-config")["data"]["engine.yaml"])

    def pod(self, name, image, ready="True"):
        """A broker has an image."""
        body = {
            "metadata": {
                "name": f"{name}-1",
                "namespace": "team",
                "uid": f"uid-of-{name}-1",
                "labels": {LABEL_POOL: name},
            },
            "spec": {"containers": [{"name": "engine", "image": image}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }
        self.versions += 1
        body["metadata"]["resourceVersion"] = str(self.versions)
        self.context.store.put(POD, body)

    def report(self, name, updated, *, done=False, ready=2):
        """Let Kubernetes report how many pods run the newest template."""
        body = copy.deepcopy(self.live(name))
        newest = body["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH]
        if done:
            self.current[name] = newest
        body["status"] = {
            "replicas": 2,
            "readyReplicas": ready,
            "updatedReplicas": updated,
            "updateRevision": newest,
            "currentRevision": self.current[name],
            "observedGeneration": body["metadata"].get("generation", 0),
        }
        self.put(STATEFUL_SET, body)

    def conditions(self, name):
        found = self.server.status(POOL, name)["conditions"]
        return {one["type"]: one for one in found}


@pytest.fixture
def world(server, context, put, pool_body):
    server.refuses = False
    made = World(server, context, put, pool_body)
    for name in NAMES:
        made.apply(name)
    made.reconcile()
    for name in NAMES:
        made.report(name, 2, done=True)
    made.reconcile()
    assert [made.partition(name) for name in NAMES] == [0, 0, 0]
    return made


def test_a_newer_operator_replaces_the_brokers_of_one_pool_after_the_other(world):
    world.upgrade("newer")
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, HELD_PARTITION, HELD_PARTITION]
    for name in NAMES:
        world.report(name, 0)
    world.reconcile()
    waiting = world.conditions("b")
    assert waiting["UpdateHeld"]["reason"] == "WaitsForPools"
    assert waiting["UpdateHeld"]["message"].endswith(
        "are done: team/a; PULSAR_READONLY_ROLLING_POOLS of the operator is 1"
    )
    assert (waiting["Progressing"]["status"], waiting["Progressing"]["reason"]) == ("True", "BrokersNotReady")
    assert "UpdateHeld" not in world.conditions("a")
    world.report("a", 1)
    world.reconcile()
    assert world.partition("b") == HELD_PARTITION
    world.report("a", 2, done=True)
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, 0, HELD_PARTITION]
    world.report("b", 2, done=True)
    world.reconcile()
    world.report("c", 2, done=True)
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, 0, 0]
    assert {world.image(name) for name in NAMES} == {"newer"}
    assert "UpdateHeld" not in world.conditions("c")


def test_another_process_of_the_operator_goes_on_with_the_same_pool(world):
    world.upgrade("newer")
    world.reconcile()
    for name in NAMES:
        world.report(name, 0)
    world.restart()
    world.reconcile("c", "b", "a")
    assert [world.partition(name) for name in NAMES] == [0, HELD_PARTITION, HELD_PARTITION]


def test_the_operators_setting_lets_more_pools_go_on(world):
    world.upgrade("newer")
    world.restart(limit=2)
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, 0, HELD_PARTITION]


def stuck(world, image="broken"):
    """An upgrade to an image with which the broker that is replaced first never gets ready."""
    world.upgrade(image)
    world.reconcile()
    for name in NAMES:
        world.report(name, 0)
    world.reconcile()
    world.now += STUCK_SECONDS
    world.reconcile()


def test_the_first_failure_of_an_image_stops_all_other_pools(world):
    stuck(world)
    for _ in range(3):
        world.now += STUCK_SECONDS
        world.reconcile()
        assert [world.partition(name) for name in NAMES] == [0, HELD_PARTITION, HELD_PARTITION]
    held = world.conditions("c")["UpdateHeld"]
    assert held["reason"] == "ImageFailed"
    assert "with image broken in team/a;" in held["message"]
    assert "UpdateHeld" not in world.conditions("a")
    world.upgrade("mended")
    world.reconcile()
    for name in NAMES:
        world.report(name, 0)
    world.report("a", 2, done=True)
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, 0, HELD_PARTITION]
    assert world.conditions("c")["UpdateHeld"]["reason"] == "WaitsForPools"


def test_another_process_of_the_operator_stops_them_too(world):
    stuck(world)
    world.restart()
    world.reconcile()
    world.now += STUCK_SECONDS
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, HELD_PARTITION, HELD_PARTITION]


@pytest.mark.parametrize("how", ["was unwell", "another broker is ready"])
def test_an_image_is_not_to_blame_for_the_mistake_of_one_pool(world, how):
    if how == "was unwell":
        world.report("a", 2, done=True, ready=1)
    else:
        world.pod("a", "broken")
    stuck(world)
    assert [world.partition(name) for name in NAMES] == [0, 0, HELD_PARTITION]


def test_a_change_that_keeps_the_image_does_not_speak_against_it(world):
    world.pod("a", world.image("a"))
    world.apply("a", generation=2, logLevel="debug")
    world.reconcile()
    world.report("a", 0)
    world.pod("a", world.image("a"), ready="False")
    world.reconcile()
    world.now += STUCK_SECONDS
    world.apply("b", generation=2, logLevel="debug")
    world.reconcile()
    assert (world.partition("b"), "UpdateHeld" in world.conditions("b")) == (0, False)


def test_a_pool_that_runs_the_image_already_does_not_wait_for_its_failure_elsewhere(world):
    stuck(world)
    world.pod("b", "broken")
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, 0, HELD_PARTITION]


def test_a_pool_of_a_namespace_that_cannot_be_read_delays_nobody(world):
    world.upgrade("newer")
    world.reconcile()
    for name in NAMES:
        world.report(name, 0)
    budget = RolloutBudget(world.context.store, 1, lambda: world.now, is_lost=lambda namespace: namespace == "team")
    world.context = replace(world.context, rollouts=budget)
    world.reconcile("b")
    assert world.partition("b") == 0


def test_a_rollout_that_pauses_after_each_broker_is_not_without_progress(world):
    world.apply("a", generation=2, updateStrategy={"minReadySeconds": 900})
    world.reconcile()
    world.upgrade("newer")
    world.reconcile()
    for name in NAMES:
        world.report(name, 0)
    world.reconcile()
    world.now += STUCK_SECONDS + 899
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, HELD_PARTITION, HELD_PARTITION]
    world.now += 1
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, 0, HELD_PARTITION]


def test_a_permission_that_is_not_used_ends(world):
    world.upgrade("newer")
    desired = {**world.live("a"), "metadata": {"annotations": {ANNOTATION_TEMPLATE_HASH: "another"}}}
    pools = [Pool.load(world.context.store.get(POOL, "team", name)) for name in NAMES]
    budget = world.context.rollouts
    assert budget.waits_for(pools[0], desired) == []
    assert budget.waits_for(pools[1], desired) == [pools[0].key]
    world.now += GRANT_SECONDS
    assert budget.waits_for(pools[1], desired) == []


def test_scaling_and_creation_wait_for_nobody(world):
    world.upgrade("newer")
    world.reconcile()
    world.report("a", 0)
    body = world.pool_body("d", replicas=2)
    world.put(POOL, body)
    world.reconcile("d")
    assert world.partition("d") == 0


def test_an_operator_that_wrote_no_hash_yet_replaces_no_brokers(world):
    for name in NAMES:
        body = copy.deepcopy(world.live(name))
        del body["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH]
        world.put(STATEFUL_SET, body)
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, 0, 0]
    assert all(ANNOTATION_TEMPLATE_HASH in world.live(name)["metadata"]["annotations"] for name in NAMES)


def test_a_pool_that_is_held_keeps_image_and_configuration_and_says_so(world):
    world.apply("a", 2, updateStrategy={"hold": True})
    world.reconcile("a")
    assert world.conditions("a")["UpdateHeld"]["message"].endswith("; no newer pod template waits")
    world.upgrade("newer")
    world.apply("a", 3, updateStrategy={"hold": True}, cache={"size": "64Mi"}, logLevel="debug")
    for _ in range(2):
        world.reconcile("a")
        assert (world.partition("a"), world.config("a")["cache-size"]) == (HELD_PARTITION, "256MiB")
        assert "log-level" not in world.config("a")
        world.report("a", 0)
    held = world.conditions("a")["UpdateHeld"]
    assert (held["status"], held["reason"]) == ("True", "Held")
    assert held["message"].endswith("; a newer pod template waits")
    world.reconcile("b")
    assert world.partition("b") == 0, "a pool that is held uses no budget"
    world.report("b", 2, done=True)
    world.reconcile("b")
    world.apply("a", 4, cache={"size": "64Mi"})
    world.reconcile("a")
    assert (world.partition("a"), world.config("a")["cache-size"], world.image("a")) == (0, "64MiB", "newer")
    assert "UpdateHeld" not in world.conditions("a")


EDITS = {
    "no settings": {"engine.yaml": "nonsense"},
    "other settings": {"engine.yaml": "cache-size: 512MiB\n"},
    "no file": {},
    "the settings of the new pod template": None,
    "deleted": "deleted",
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("first", [False, True], ids=["while it is held", "before it is held"])
@pytest.mark.parametrize("reason", ["Held", "WaitsForPools"])
def test_the_settings_of_brokers_that_are_held_survive_edits_of_their_config_map(world, edit, first, reason):
    """Each reconcile may be the first of a new process: it knows the API server's objects only."""
    key = ("ConfigMap", "b-config")
    before = world.server.objects[key]["data"]
    hold = {"updateStrategy": {"hold": True}} if reason == "Held" else {}

    def harm():
        body = copy.deepcopy(world.server.objects[key])
        if EDITS[edit] == "deleted":
            gone = world.server.objects.pop(key)
            world.context.store.remove(
                CONFIG_MAP, {**gone, "metadata": {**gone["metadata"], "resourceVersion": "9999"}}
            )
            return
        pool = Pool.load(world.context.store.get(POOL, "team", "b"))
        body["data"] = config_map(pool)["data"] if EDITS[edit] is None else EDITS[edit]
        world.put(CONFIG_MAP, body)

    def hold_back():
        world.upgrade("newer")
        world.apply("b", 2, cache={"size": "64Mi"}, **hold)

    def reconcile_all():
        world.reconcile()
        for name in NAMES:
            world.report(name, 0)

    for step in (harm, hold_back) if first else (hold_back, reconcile_all, harm):
        step()
    for _ in range(2):
        reconcile_all()
        assert world.conditions("b")["UpdateHeld"]["reason"] == reason
        assert world.partition("b") == HELD_PARTITION
        assert world.server.objects[key]["data"] == before


def test_a_pool_that_an_earlier_operator_holds_keeps_its_settings_from_the_first_reconcile_on(world):
    world.apply("a", 2, updateStrategy={"hold": True}, cache={"size": "64Mi"})
    world.reconcile("a")
    world.report("a", 0)
    body = copy.deepcopy(world.server.objects["ReadOnlyBrokerPool", "a"])
    for name in ("brokerConfig", "source", "membershipUid"):
        del body["status"][name]
    world.put(POOL, body)
    before = world.live("a"), world.config("a")
    world.reconcile("a")
    assert (world.live("a"), world.config("a")) == before, "no broker restarts, and none reads anything else"
    world.context.store.remove(CONFIG_MAP, world.server.objects.pop(("ConfigMap", "a-config")))
    world.reconcile("a")
    assert world.config("a") == before[1]


@pytest.mark.parametrize(
    ("pending", "recorded", "stored", "found"),
    [
        (False, "a: 1", "b: 2", "a: 1"),
        (False, "b: 2", "a: 1", "a: 1"),
        (False, "a: 1", "- nonsense: [", "a: 1"),
        (False, "b: 2", None, "b: 2"),
        (False, None, "b: 2", "b: 2"),
        (True, "b: 2", "a: 1", "b: 2"),
        (True, None, "b: 2", "b: 2"),
        (True, None, None, None),
    ],
)
def test_the_former_settings_are_those_of_the_live_template_if_pods_run_it(pending, recorded, stored, found):
    """An operator that was killed before it wrote the status has left an older record."""
    annotations = {ANNOTATION_CONFIG_HASH: digest({"a": 1})}
    revisions = {"currentRevision": "x", "updateRevision": "y" if pending else "x", "replicas": 2, "updatedReplicas": 0}
    live = {
        "metadata": {},
        "spec": {"replicas": 2, "template": {"metadata": {"annotations": annotations}}},
        "status": revisions,
    }
    assert former_config(live, recorded, stored) == found


def test_a_pool_is_not_released_by_a_status_of_before_the_change(world):
    """The operator reconciles again before the controller of StatefulSets has seen the new template."""
    before = world.config("b")
    world.apply("b", 2, logLevel="debug", updateStrategy={"hold": True})
    world.upgrade("newer")
    world.reconcile()
    for name in NAMES:
        body = copy.deepcopy(world.live(name))
        body["metadata"]["generation"] = 2
        revisions = {"updateRevision": world.current[name], "currentRevision": world.current[name]}
        body["status"] = {
            "replicas": 2,
            "readyReplicas": 2,
            "updatedReplicas": 2,
            "observedGeneration": 1,
            **revisions,
        }
        world.put(STATEFUL_SET, body)
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, HELD_PARTITION, HELD_PARTITION]
    assert world.config("b") == before, "a broker that restarts reads it"
    for name in ("b", "c"):
        world.report(name, 0)
    world.reconcile()
    assert [world.partition(name) for name in NAMES] == [0, HELD_PARTITION, HELD_PARTITION]
