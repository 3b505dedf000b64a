"""manifests/admission-policy: what the API server lets the operator's service account do, and what it refuses.

tests/unit/operator/runtime/test_interrupted.py gives the policies everything that the operator writes in its scenarios.
"""

import copy
import pathlib
from dataclasses import replace
from functools import partial

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.kube.events import Notice, manifest
from readonly_operator.kube.kinds import (
    AUTOSCALER,
    BINDING,
    CERTIFICATE,
    CHILDREN,
    CONFIG_MAP,
    EVENT,
    LEASE,
    POD,
    POOL,
    SECRET,
    SERVICE,
    SOURCE,
    STATEFUL_SET,
    kind_of,
)
from readonly_operator.kube.names import FINALIZER_WRITER, OPERATOR
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

from tests.support.admission import Policies, Request
from tests.support.attacks import OBJECT_ATTACKS, POD_ATTACKS, owner, with_value
from tests.support.yaml_documents import load_all_yaml, load_yaml
from tests.unit.operator.model.test_children import EVERYTHING

ROOT = pathlib.Path(__file__).parents[3]
FOLDER = ROOT / "manifests" / "admission-policy"
LAC_KEY = "bookkeeperExplicitLacIntervalInMills"
LAC = "pulsar-readonly.io/explicit-lac"


@pytest.fixture(scope="module")
def policies() -> Policies:
    return Policies(FOLDER)


@pytest.fixture
def refuses(policies):
    """What is refused: operation, kind, the new object, the old one."""

    def ask(operation, kind, new=None, old=None, **options):
        return policies.refusals(Request(kind, operation, new, old, **options))

    return ask


@pytest.fixture
def objects(pool_body):
    """All objects of a pool, as the operator applies them."""
    tls = {key: one for key, one in EVERYTHING["listeners"]["tls"].items() if key != "certificate"}
    listeners = {**EVERYTHING["listeners"], "tls": {**tls, "issuerRef": {"name": "ca"}}}
    pool = Pool.load(pool_body(**{**EVERYTHING, "listeners": listeners}))
    made = children(pool, LookupConfig.of([]), Settings(engine_image="x"), {0: 1, 1: 1})
    asleep = children(replace(pool, phase=Phase.ASLEEP), LookupConfig.of([]), Settings(engine_image="x"))
    made += [one for one in asleep if one["metadata"]["name"] == pool.key.waker or one["kind"] == "Service"]
    for one in made:
        one["metadata"]["annotations"] = {
            **one["metadata"].get("annotations", {}),
            "pulsar-readonly.io/applied-hash": "h",
        }
    return made


@pytest.fixture
def service(objects):
    return named(objects, SERVICE)


def changed(body, **metadata):
    body = copy.deepcopy(body)
    for name, value in metadata.items():
        if value is None:
            body["metadata"].pop(name, None)
        else:
            body["metadata"][name] = value
    return body


def test_every_kind_that_the_operator_may_change_has_a_policy():
    """Another right without a policy would be a way around it."""
    rules = next(one for one in documents("cluster-wide/rbac.yaml") if one["kind"] == "ClusterRole")["rules"]
    granted = {
        (group, resource, verb)
        for rule in [*rules, *documents("operator/lease.yaml")[0]["rules"], *finalizer_rules()]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource
        not in {f"{kind.plural}/{sub}" for kind in (POOL, BINDING, SOURCE) for sub in ("status", "finalizers")}
    }
    operations = {"create": "CREATE", "patch": "UPDATE", "update": "UPDATE", "delete": "DELETE"}
    covered = {
        (group, resource, operation)
        for one in policy_documents()
        if one["kind"] == "ValidatingAdmissionPolicy"
        for rule in one["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }
    wanted = {(group, resource, operations[verb]) for group, resource, verb in granted if verb in operations}
    assert wanted - covered == set()


def test_every_message_is_one_that_the_end_to_end_tests_look_for(policies):
    messages = [
        validation["message"] for one in policy_documents() for validation in one["spec"].get("validations", ())
    ]
    assert len(messages) > len(policies.every) == 13
    assert all(message.startswith("the operator may ") for message in messages), messages


def test_rules_name_versions_so_that_the_api_server_checks_the_types_of_expressions():
    """It leaves out rules with * (apiserver, validating.TypeChecker), and looks at ten kinds of each policy."""
    served = {(kind.group, kind.plural): {kind.version} for kind in (*CHILDREN, LEASE, EVENT, POOL, BINDING, SOURCE)}
    served["", "pods/status"] = {"v1"}
    for one in policy_documents():
        if one["kind"] != "ValidatingAdmissionPolicy":
            continue
        constraints = one["spec"]["matchConstraints"]
        assert constraints.get("matchPolicy", "Equivalent") == "Equivalent", "else other versions are a way around it"
        kinds = 0
        for rule in constraints["resourceRules"]:
            for resource in rule["resources"]:
                assert set(rule["apiVersions"]) == served[rule["apiGroups"][0], resource], resource
                kinds += len(rule["apiVersions"])
        assert kinds <= 10


def policy_documents():
    return [one for name in ("policies", "reach") for one in documents(f"admission-policy/{name}.yaml")]


def documents(name):
    return list(load_all_yaml((ROOT / "manifests" / name).read_text()))


def finalizer_rules():
    return [
        rule
        for one in documents("explicit-lac/rbac.yaml")
        if one["metadata"]["name"] == "pulsar-readonly-finalizer"
        for rule in one.get("rules", ())
    ]


def test_all_objects_of_a_pool_are_made_changed_and_deleted(objects, refuses):
    assert {kind_of(one) for one in objects} == set(CHILDREN)
    for one in objects:
        kind = kind_of(one)
        assert refuses("CREATE", kind, one) == []
        assert refuses("UPDATE", kind, changed(one, annotations={"a": "b"}), one) == []
        assert refuses("DELETE", kind, old=one) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": None},
        {"labels": {"pulsar-readonly.io/pool": "other"}},
        {"ownerReferences": None},
        {"ownerReferences": []},
        {"ownerReferences": owner(controller=False)},
        {"ownerReferences": owner(kind="Deployment", version="apps/v1")},
        {"ownerReferences": owner(version="example.org/v1")},
        {"ownerReferences": owner(name="other")},
    ],
)
def test_nothing_else_is_made_or_deleted(objects, refuses, metadata):
    for one in objects:
        kind, other = kind_of(one), changed(one, **metadata)
        assert refuses("CREATE", kind, other), metadata
        assert refuses("DELETE", kind, old=other), metadata
        assert refuses("UPDATE", kind, other, one), "it must not let go of its own objects"


def test_only_the_operators_account_is_limited(objects, refuses):
    stranger = {"metadata": {"name": "x"}}
    assert refuses("DELETE", STATEFUL_SET, old=stranger)
    assert refuses("DELETE", STATEFUL_SET, old=stranger, user=f"system:serviceaccount:other:{OPERATOR}")
    for user in ("system:serviceaccount:other:x", f"system:serviceaccount:{OPERATOR}:x", f"oidc:{OPERATOR}", OPERATOR):
        assert refuses("DELETE", STATEFUL_SET, old=stranger, user=user) == [], user
    assert refuses("CREATE", SECRET, stranger) == [], "RBAC grants nothing of it"


def test_an_object_of_another_owner_is_not_taken_over(objects, refuses):
    for one in objects:
        kind = kind_of(one)
        strangers = (
            changed(one, ownerReferences=owner(kind="Deployment", version="apps/v1", uid="other")),
            changed(one, ownerReferences=owner(uid="another pool")),
            changed(one, ownerReferences=None, labels=None, annotations=None),
            changed(one, ownerReferences=None, annotations=None),
            changed(one, ownerReferences=None, labels={"pulsar-readonly.io/pool": "other"}),
        )
        for old in strangers:
            assert refuses("UPDATE", kind, one, old), old["metadata"]


def test_what_a_deleted_pool_left_is_adopted_and_a_lost_label_restored(objects, refuses):
    for one in objects:
        kind = kind_of(one)
        assert refuses("UPDATE", kind, one, changed(one, ownerReferences=None)) == []
        assert refuses("UPDATE", kind, one, changed(one, labels={})) == []
        assert refuses("UPDATE", kind, one, changed(one, labels=None)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    POD_ATTACKS,
)
def test_brokers_get_no_rights_on_nodes_and_no_token(objects, refuses, path, value):
    """Whoever has the operator's token could make the API server believe in a pool that does not exist."""
    one = named(objects, STATEFUL_SET)
    other = with_value(one, ("spec", "template", "spec", *path), value)
    for operation, old in (("CREATE", None), ("UPDATE", one)):
        assert len(refuses(operation, STATEFUL_SET, other, old)) == 1


def named(objects, kind):
    return next(one for one in objects if kind_of(one) == kind)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    OBJECT_ATTACKS,
)
def test_objects_of_a_pool_reach_nothing_but_its_brokers(objects, refuses, kind, path, value):
    own = named(objects, kind)
    other = with_value(own, path, value)
    assert len(refuses("CREATE", kind, other)) == 1
    assert len(refuses("UPDATE", kind, other, own)) == 1


def test_addresses_that_somebody_else_has_given_a_service_stay(service, refuses):
    theirs = with_value(service, ("spec", "externalIPs"), ["192.0.2.1"])
    assert refuses("UPDATE", SERVICE, theirs, theirs) == []
    more = with_value(service, ("spec", "externalIPs"), ["192.0.2.1", "192.0.2.2"])
    assert refuses("UPDATE", SERVICE, more, theirs)
    assert refuses("UPDATE", SERVICE, service, theirs) == []


def test_a_certificate_of_the_user_may_have_any_name_outside_and_its_own_inside(objects, refuses):
    own = named(objects, CERTIFICATE)
    names = [*own["spec"]["dnsNames"], "pulsar.example.com", "extra.team.svc.cluster.local"]
    assert refuses("CREATE", CERTIFICATE, with_value(own, ("spec", "dnsNames"), names)) == []
    for secret in ("demo-listeners", "demo-listeners-mine"):
        assert refuses("CREATE", CERTIFICATE, with_value(own, ("spec", "secretName"), secret)) == []


def test_nothing_is_written_in_namespaces_of_kubernetes(objects, refuses):
    for one in objects:
        other = changed(one, namespace="kube-system")
        for operation, new, old in (("CREATE", other, None), ("UPDATE", other, other), ("DELETE", None, other)):
            assert "the operator may write nothing in the namespaces of Kubernetes itself (kube-*)" in refuses(
                operation, kind_of(one), new, old
            )
        if kind_of(one) != CERTIFICATE:  # it has names of its namespace
            assert refuses("CREATE", kind_of(one), changed(one, namespace="team-kube-x")) == []


@pytest.fixture
def owners_config():
    """The ConfigMap of owner brokers."""
    data = {f"PULSAR_PREFIX_{LAC_KEY}": "0", "other": "x"}
    return {"metadata": {"name": "pulsar-broker", "labels": {"app": "pulsar"}, "annotations": {"a": "b"}}, "data": data}


def with_setting(config, value="200", record='{"pool": "team/demo"}'):
    config = copy.deepcopy(config)
    config["data"][f"PULSAR_PREFIX_{LAC_KEY}"] = value
    config["metadata"]["annotations"][LAC] = record
    return config


def test_the_setting_of_explicit_lac_is_set_handed_over_and_put_back(owners_config, refuses):
    managed = with_setting(owners_config)
    assert refuses("UPDATE", CONFIG_MAP, managed, owners_config) == []
    assert refuses("UPDATE", CONFIG_MAP, with_setting(owners_config, record="another"), managed) == []
    restored = with_setting(owners_config, value="0")
    assert refuses("UPDATE", CONFIG_MAP, restored, managed) == []
    assert refuses("UPDATE", CONFIG_MAP, owners_config, restored) == []
    absent = copy.deepcopy(owners_config)
    del absent["data"][f"PULSAR_PREFIX_{LAC_KEY}"]
    assert refuses("UPDATE", CONFIG_MAP, managed, absent) == []
    bare = {"metadata": {"name": "pulsar-broker"}}
    made = {"metadata": {"name": "pulsar-broker", "annotations": {LAC: "x"}}, "data": {LAC_KEY: "200"}}
    assert refuses("UPDATE", CONFIG_MAP, made, bare) == []
    assert refuses("UPDATE", CONFIG_MAP, bare, made) == []


def test_nothing_else_of_a_config_map_is_changed(owners_config, refuses):
    managed = with_setting(owners_config)
    for spoil in (
        lambda body: body["data"].update(other="y"),
        lambda body: body["data"].pop("other"),
        lambda body: body["data"].update(more="y"),
        lambda body: body["metadata"]["annotations"].update(a="c"),
        lambda body: body["metadata"]["annotations"].update(c="c"),
        lambda body: body["metadata"]["labels"].update(app="x"),
        lambda body: body["metadata"].update(ownerReferences=owner()),
        lambda body: body.update(binaryData={"x": "eA=="}),
    ):
        body = copy.deepcopy(managed)
        spoil(body)
        assert refuses("UPDATE", CONFIG_MAP, body, owners_config), body
        assert refuses("UPDATE", CONFIG_MAP, body, managed), body
    plain = copy.deepcopy(owners_config)
    plain["data"][f"PULSAR_PREFIX_{LAC_KEY}"] = "200"
    assert refuses("UPDATE", CONFIG_MAP, plain, owners_config), "without its record"
    assert refuses("DELETE", CONFIG_MAP, old=managed)
    assert refuses("CREATE", CONFIG_MAP, managed)


def test_the_record_on_a_pools_own_config_map_opens_nothing(objects, refuses):
    own = named(objects, CONFIG_MAP)
    marked = changed(own, annotations={**own["metadata"]["annotations"], LAC: "x"})
    assert refuses("UPDATE", CONFIG_MAP, marked, own) == []
    assert refuses("UPDATE", CONFIG_MAP, {**marked, "data": {"engine.yaml": ""}}, marked) == []
    assert refuses("DELETE", CONFIG_MAP, old=changed(marked, ownerReferences=None))


@pytest.fixture
def pod(make_pool):
    labels = {**make_pool().key.selector(), "apps.kubernetes.io/pod-index": "0"}
    metadata = {"name": "demo-0", "labels": labels, "ownerReferences": owner("StatefulSet", "apps/v1")}
    spec = {"containers": [{"name": "broker", "image": "x"}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "podIP": "10.0.0.1"}}


@pytest.fixture
def refuses_pod(refuses):
    """What is refused of the only right on pods: new and old pod."""
    return partial(refuses, "UPDATE", POD, subresource="status")


@pytest.mark.parametrize("name", ["bindings-revision", "locality"])
def test_two_annotations_of_brokers_are_written(pod, refuses_pod, name):
    annotated = changed(pod, annotations={f"pulsar-readonly.io/{name}": "x", "a": "b"})
    assert refuses_pod(annotated, changed(pod, annotations={"a": "b"})) == []
    assert refuses_pod(annotated, changed(annotated, annotations={"a": "b"})) == []
    assert refuses_pod(annotated, pod), "a is not the operator's"


def test_nothing_else_of_a_pod_is_changed_and_no_other_pod(pod, refuses_pod):
    image = copy.deepcopy(pod)
    image["spec"]["containers"][0]["image"] = "y"
    new = changed(pod, annotations={"pulsar-readonly.io/locality": "/a"})
    for body in (
        image,
        {**new, "status": {"phase": "Running", "podIP": "10.0.0.2"}},
        {key: value for key, value in new.items() if key != "status"},
        changed(new, annotations={"other": "x"}),
        changed(new, labels={}),
        changed(new, ownerReferences=None),
    ):
        assert refuses_pod(body, pod), body["metadata"]
    for old in (
        changed(pod, labels=None),
        changed(pod, labels={"pulsar-readonly.io/pool": "demo"}),
        changed(pod, ownerReferences=None),
        changed(pod, ownerReferences=owner("StatefulSet", "apps/v1", name="other")),
        changed(pod, ownerReferences=owner("ReplicaSet", "apps/v1")),
    ):
        annotated = changed(old, annotations={"pulsar-readonly.io/locality": "/a"})
        assert refuses_pod(annotated, old), old["metadata"]


def test_of_users_objects_only_the_own_finalizer_is_changed(pool_body, binding_body, refuses):
    for kind, body in ((POOL, pool_body()), (BINDING, binding_body())):
        held = changed(body, finalizers=["foregroundDeletion", FINALIZER_WRITER])
        assert refuses("UPDATE", kind, held, changed(body, finalizers=["foregroundDeletion"])) == []
        assert refuses("UPDATE", kind, changed(body, finalizers=["foregroundDeletion"]), held) == []
        assert refuses("UPDATE", kind, changed(body, finalizers=[FINALIZER_WRITER]), body) == []
        assert refuses("UPDATE", kind, body, changed(body, finalizers=[FINALIZER_WRITER])) == []
        for other in (
            changed(body, finalizers=[FINALIZER_WRITER]),
            changed(body, finalizers=["foregroundDeletion", "mine"]),
            changed(held, labels={"a": "b"}),
            changed(held, annotations={"pulsar-readonly.io/paused": "true"}),
            {**held, "spec": {**held["spec"], "x": 1}},
        ):
            assert refuses("UPDATE", kind, other, held), other


def test_events_are_its_own(pool_body, refuses):
    notice = Notice("Normal", "Created", "x")
    made = manifest(POOL, pool_body(), notice, None, "2026-01-01T00:00:00Z", "p")
    assert refuses("CREATE", EVENT, made) == []
    assert refuses("UPDATE", EVENT, made, made) == []
    foreign = {**made, "reportingComponent": "kubelet"}
    assert refuses("CREATE", EVENT, foreign)
    assert refuses("UPDATE", EVENT, made, foreign)
    assert refuses("CREATE", EVENT, {**made, "involvedObject": {"apiVersion": "v1", "kind": "Pod"}})
    assert refuses("CREATE", EVENT, {**made, "involvedObject": {"kind": "Pod"}})


def test_the_lease_is_its_own(refuses):
    lease = load_yaml((ROOT / "manifests" / "operator" / "deployment.yaml").read_text())
    arguments = lease["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--lease=$(POD_NAMESPACE)/{OPERATOR}" in arguments
    own = {"metadata": {"name": OPERATOR}}
    assert refuses("CREATE", LEASE, own) == refuses("UPDATE", LEASE, own, own) == []
    assert refuses("CREATE", LEASE, {"metadata": {"name": "kube-scheduler"}})


def test_refusals_name_what_is_allowed(objects, refuses):
    autoscaler = named(objects, AUTOSCALER)
    (message,) = refuses("DELETE", AUTOSCALER, old=changed(autoscaler, labels=None))
    assert message == (
        "the operator may write and delete only objects that a ReadOnlyBrokerPool controls and that have its name in the label "
        "pulsar-readonly.io/pool"
    )
