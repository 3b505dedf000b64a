"""The uid by which brokers know their pool: recorded once, and then no edit of another object changes it."""

import copy

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.assembly.identity import membership_uid
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.kube.kinds import CONFIG_MAP, POOL, STATEFUL_SET, kind_of
from readonly_operator.kube.names import ANNOTATION_POOL_UID, PoolKey

DEMO = PoolKey("team", "demo")
APPLIED = [{"manager": "pulsar-readonly-operator", "operation": "Apply"}]


@pytest.fixture
def pool(server, context, put, pool_body):
    """Writes a pool of this uid and reconciles it; returns the uid that brokers get."""
    server.refuses = False

    def make(uid="uid-of-demo", **spec):
        body = pool_body(**{"replicas": 0, **spec})
        body["metadata"]["uid"] = uid
        put(POOL, body)
        return again()

    def again():
        reconcile(context, DEMO)
        args = server.objects["StatefulSet", "demo"]["spec"]["template"]["spec"]["containers"][0]["args"]
        return args[args.index("--pool-uid") + 1]

    make.again = again
    return make


@pytest.fixture
def orphan(server, context):
    """The pool is deleted with --cascade=orphan."""

    def make(managers=APPLIED):
        for key, body in list(server.objects.items()):
            if body["metadata"].get("ownerReferences"):
                metadata = {**body["metadata"], "ownerReferences": [], "managedFields": managers}
                context.store.put(kind_of(body), server.add({**server.objects[key], "metadata": metadata}))
        context.store.remove(POOL, server.objects.pop(("ReadOnlyBrokerPool", "demo")))

    return make


def annotate(server, put):
    body = copy.deepcopy(server.objects["ConfigMap", "demo-config"])
    body["metadata"]["annotations"][ANNOTATION_POOL_UID] = "evil"
    put(CONFIG_MAP, body)


def remove(server, context, put):
    """A deletion, and to a watch with a selector the loss of the label."""
    gone = copy.deepcopy(server.objects.pop(("ConfigMap", "demo-config")))
    gone["metadata"]["resourceVersion"] = "9999"
    context.store.remove(CONFIG_MAP, gone)


@pytest.mark.parametrize("adopts", [False, True])
@pytest.mark.parametrize("harm", ["annotation", "deletion"])
def test_an_edit_of_the_config_map_changes_no_identity(server, context, put, pool, orphan, adopts, harm):
    assert pool() == "uid-of-demo"
    if adopts:
        orphan()
        assert pool("successor") == "uid-of-demo", "so that no broker restarts"
    template = server.objects["StatefulSet", "demo"]["spec"]["template"]
    if harm == "annotation":
        annotate(server, put)
    else:
        remove(server, context, put)
    assert pool.again() == "uid-of-demo"
    assert server.objects["StatefulSet", "demo"]["spec"]["template"] == template
    assert server.objects["ConfigMap", "demo-config"]["metadata"]["annotations"][ANNOTATION_POOL_UID] == "uid-of-demo"
    assert Pool.load(context.store.get(POOL, "team", "demo")).identity == "team.demo@uid-of-demo"


@pytest.mark.parametrize("edit", [annotate, lambda *_: None])
def test_a_pool_of_an_earlier_operator_keeps_the_identity_that_its_brokers_have(
    server, context, put, pool, orphan, edit
):
    pool()
    orphan()
    pool("successor")
    body = copy.deepcopy(server.objects["ReadOnlyBrokerPool", "demo"])
    del body["status"]["membershipUid"]
    put(POOL, body)
    edit(server, put)
    assert pool.again() == "uid-of-demo"
    assert server.status(POOL, "demo")["membershipUid"] == "uid-of-demo"


@pytest.mark.parametrize(
    ("left", "managers", "found"),
    [
        (["StatefulSet", "ConfigMap"], APPLIED, "uid-of-demo"),
        (["StatefulSet"], APPLIED, "uid-of-demo"),
        (["ConfigMap"], APPLIED, "uid-of-demo"),
        ([], APPLIED, "successor"),
        (["StatefulSet", "ConfigMap"], [{"manager": "kubectl", "operation": "Apply"}], "successor"),
    ],
)
def test_only_what_the_operator_has_made_says_who_the_brokers_are(
    server, context, pool, pool_body, orphan, left, managers, found
):
    """Anybody may write labels and annotations; nobody else is in managedFields as the operator."""
    pool()
    orphan(managers)
    for kind, name in ((STATEFUL_SET, "demo"), (CONFIG_MAP, "demo-config")):
        if kind.kind not in left:
            context.store.remove(kind, server.objects.pop((kind.kind, name)))
    body = pool_body()
    body["metadata"]["uid"] = "successor"
    assert membership_uid(context, body) == found


def test_objects_of_another_pool_say_nothing(server, context, put, pool, pool_body):
    pool()
    body = pool_body()
    body["metadata"]["uid"] = "other"
    assert membership_uid(context, body) == "other"
