"""The chart renders what manifests/ holds, and refuses values that it does not know."""

import json
import tomllib

import pytest
from readonly_operator.api.crds import DEFINITIONS
from readonly_operator.command import parser
from readonly_operator.settings import Settings

from tests.support.yaml_documents import load_yaml
from tests.unit.delivery.conftest import NAMESPACE, ROOT, plain_template_run, template_run

CHART = ROOT / "charts" / "pulsar-readonly"
HELMS_OWN = (
    "helm.sh/chart",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
)


def by_name(objects: list[dict]) -> dict[tuple[str, str, str], dict]:
    """Objects by kind, namespace and name, without the labels that Helm's conventions add."""
    found = {}
    for one in objects:
        metadata = one["metadata"]
        for label in HELMS_OWN:
            metadata["labels"].pop(label, None)
        found[one["kind"], metadata.get("namespace", ""), metadata["name"]] = one
    assert len(found) == len(objects)
    return found


def pod(objects: list[dict]) -> dict:
    return next(one for one in objects if one["kind"] == "Deployment")["spec"]["template"]["spec"]


def container(objects: list[dict]) -> dict:
    return pod(objects)["containers"][0]


def test_lint(helm):
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_renders_what_the_manifests_hold(template, kustomize):
    manifests = [one for one in kustomize("manifests") if one["kind"] not in {"CustomResourceDefinition", "Namespace"}]
    assert by_name(template()) == by_name(manifests)


def test_the_chart_for_its_own_namespace_renders_what_the_namespaced_manifests_hold(template, kustomize):
    # the policies are in no namespace: an administrator applies them, with the definitions
    made = by_name(template(f"namespaces={{{NAMESPACE}}}", "admissionPolicy.enabled=false"))
    manifests = by_name(kustomize("manifests/namespaced"))
    for objects, own in ((made, NAMESPACE), (manifests, "$(POD_NAMESPACE)")):
        arguments = container(list(objects.values()))["args"]
        arguments[arguments.index(f"--namespace={own}")] = "--namespace=its own"
    assert made == manifests


def test_the_tests_install_the_same_by_both_ways(template, kustomize):
    values = ROOT / "tests" / "e2e" / "helm-values.yaml"
    made, manifests = by_name(template(options=("--values", str(values)))), kustomize("manifests/overlays/devstack")
    manifests = by_name([one for one in manifests if one["kind"] not in {"CustomResourceDefinition", "Namespace"}])
    for objects in (made, manifests):
        one = container(list(objects.values()))
        options = [text for text in one["args"] if text.startswith("--engine-image=")]
        one["args"] = [text for text in one["args"] if text not in options]
        one["env"] += [{"name": "PULSAR_READONLY_ENGINE_IMAGE", "value": text.partition("=")[2]} for text in options]
        one["env"].sort(key=lambda variable: variable["name"])
    assert made == manifests


def test_rights_for_explicit_lac_are_those_of_the_manifests(template, kustomize):
    writer = "explicitLac.writers[0]."
    names = (f"{writer}namespace=pulsar", f"{writer}configMap=pulsar-broker", f"{writer}statefulSet=pulsar-broker")
    plain, made = by_name(template()), by_name(template(*names, "finalizer=true"))
    added = {key: one for key, one in made.items() if key not in plain}
    assert added == by_name(kustomize("manifests/explicit-lac"))
    inside = template(*names, "finalizer=true", "namespaces={orders}")
    assert not [one for one in inside if one["kind"].startswith("ClusterRole")]


@pytest.mark.parametrize("name", ["1234", "0x1f", "1e3", "true", "null"])
def test_names_that_yaml_would_take_for_something_else_stay_names(template, name):
    writer = "explicitLac.writers[0]."
    objects = template(
        *("finalizer=true", "monitoring.podMonitor.enabled=true", "monitoring.rules.enabled=true"),
        options=(
            *(
                "--namespace",
                name,
                "--set-string",
                f"namespaces={{{name}}},serviceAccount.name={name},priorityClassName={name}",
            ),
            *("--set-string", f"{writer}namespace={name},{writer}configMap={name},{writer}statefulSet={name}"),
            *("--set-string", f"imagePullSecrets={{{name}}}"),
        ),
    )
    seen = 0
    for one in objects:
        if one["kind"].startswith("ValidatingAdmission"):  # in no namespace
            assert one["metadata"]["name"].startswith(f"pulsar-readonly-operator-{name}-")
            continue
        assert one["metadata"]["namespace"] == name
        for subject in one.get("subjects", ()):
            assert (subject["namespace"], subject["name"]) == (name, name)
            seen += 1
        for rule in one.get("rules", ()):
            assert all(isinstance(known, str) for known in rule.get("resourceNames", ()))
    assert seen > 2
    made = pod(objects)
    assert (made["serviceAccountName"], made["priorityClassName"]) == (name, name)
    assert made["imagePullSecrets"] == [{"name": name}]
    assert f"--namespace={name}" in container(objects)["args"]


def test_source_clusters_of_one_namespace_share_one_role(template):
    names = [
        f"explicitLac.writers[{index}].{field}={value}"
        for index, name in enumerate(("one", "two"))
        for field, value in (("namespace", "pulsar"), ("configMap", name), ("statefulSet", name))
    ]
    made = template(*names)
    assert len(by_name(made)) == len(made), "Helm refuses two objects of one name"
    (role,) = [
        one for one in made if one["metadata"]["name"] == "pulsar-readonly-explicit-lac" and one["kind"] == "Role"
    ]
    assert [rule.get("resourceNames") for rule in role["rules"][:2]] == [["one", "two"], ["one", "two"]]


def test_the_definitions_are_those_of_crds():
    files = {path.name: path.read_text() for path in (ROOT / "crds").glob("readonly*.yaml")}
    assert {path.name: path.read_text() for path in (CHART / "crds").iterdir()} == files, "run: make crds"


def test_the_version_is_the_projects():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = load_yaml((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_the_annotations_name_the_definitions():
    annotations = load_yaml((CHART / "Chart.yaml").read_text())["annotations"]
    listed = [(one["kind"], one["version"], one["name"]) for one in load_yaml(annotations["artifacthub.io/crds"])]
    definitions = [one.manifest() for one in DEFINITIONS]
    assert listed == [
        (one["spec"]["names"]["kind"], one["spec"]["versions"][0]["name"], one["metadata"]["name"])
        for one in definitions
    ]


def test_every_value_is_in_the_schema_and_has_its_type():
    def walk(values: dict, schema: dict, path: str) -> None:
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rpartition("/")[2]]
        for name, value in values.items():
            if "properties" in schema:
                assert name in schema["properties"], f"{path}.{name}"
                assert schema["additionalProperties"] is False, path
                if isinstance(value, dict):
                    walk(value, schema["properties"][name], f"{path}.{name}")
        if "properties" in schema:
            assert set(schema["properties"]) - {"global"} == set(values), path

    schema = json.loads((CHART / "values.schema.json").read_text())
    definitions = schema["definitions"]
    walk(load_yaml((CHART / "values.yaml").read_text()), schema, "values")


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("replicaCount=2", "replicaCount"),
        ("image.name=x", "name"),
        ("fullnameOverride=Canary", "fullnameOverride"),
        (f"fullnameOverride={'x' * 55}", "fullnameOverride"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("image.digest=latest", "digest"),
        ("namespaces=orders", "namespaces"),
        ("namespaces={Orders}", "namespaces"),
        ("log.level=trace", "level"),
        ("settings.workers=-1", "workers"),
        ("settings.resyncSeconds=often", "resyncSeconds"),
        ("monitoring.podMonitor.interval=5", "interval"),
        ("resources.cpu=1", "cpu"),
        ("podSecurityContext.runAsUser=0", "runAsUser"),
        ("podSecurityContext.privileged=true", "privileged"),
        ("tolerations.key=x", "tolerations"),
        ("explicitLac.writers[0].namespace=pulsar", "configMap"),
    ],
)
def test_wrong_values_are_refused_by_name(helm, value, named):
    done = template_run(helm, value)
    assert done.returncode != 0
    assert named in done.stderr


def test_one_namespace_needs_no_rights_in_others(template):
    objects = template("namespaces={orders,billing}")
    assert not [one for one in objects if one["kind"].startswith("ClusterRole")]
    lease = {one["kind"]: one for one in objects if one["metadata"]["name"].endswith("-lease")}
    assert {one["metadata"]["namespace"] for one in lease.values()} == {NAMESPACE}
    objects = [one for one in objects if one not in lease.values()]
    roles = {one["metadata"]["namespace"]: one["rules"] for one in objects if one["kind"] == "Role"}
    everywhere = by_name(template())["ClusterRole", "", "pulsar-readonly-operator"]["rules"]
    everywhere = [rule for rule in everywhere if rule["resources"] != ["nodes"]]  # nodes are in no namespace
    everywhere = [{**one, "verbs": ["get"]} if one["resources"] == ["namespaces"] else one for one in everywhere]
    assert roles == {"orders": everywhere, "billing": everywhere}
    for binding in (one for one in objects if one["kind"] == "RoleBinding"):
        assert binding["metadata"]["namespace"] in roles
        assert binding["subjects"][0]["namespace"] == NAMESPACE
    arguments = container(objects)["args"]
    assert "--all-namespaces" not in arguments
    assert {"--namespace=orders", "--namespace=billing"} <= set(arguments)


def test_the_admission_policies_are_those_of_the_manifests(template, kustomize):
    plain, made = by_name(template("admissionPolicy.enabled=false")), by_name(template())
    added = {key: one for key, one in made.items() if key not in plain}
    assert added == by_name(kustomize("manifests/admission-policy"))
    assert not any(kind.startswith("ValidatingAdmission") for kind, _, _ in by_name(template("rbac.create=false")))
    elsewhere = template("serviceAccount.name=mine", options=("--namespace", "other"))
    conditions = [one["spec"]["matchConditions"] for one in elsewhere if one["kind"] == "ValidatingAdmissionPolicy"]
    assert {one["expression"] for one, *_ in conditions} == {
        "request.userInfo.username == 'system:serviceaccount:other:mine'"
    }


def test_operators_for_some_namespaces_have_policies_of_their_own(template):
    everywhere, inside = (
        {one["metadata"]["name"] for one in objects if one["kind"].startswith("ValidatingAdmission")}
        for objects in (template(), template("namespaces={orders}", options=("--namespace", "orders-system")))
    )
    assert {name.replace("-orders-system", "") for name in inside} == everywhere
    assert all(name.startswith("pulsar-readonly-operator-orders-system-") for name in inside)
    bindings = [one for one in template("namespaces={orders}") if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert all(one["spec"]["policyName"] == one["metadata"]["name"] for one in bindings)


@pytest.mark.parametrize(
    ("release", "override", "begin"),
    [
        ("pulsar-readonly", "", "pulsar-readonly"),
        ("pulsar-readonly-canary", "", "pulsar-readonly-canary"),
        ("canary", "", "canary-pulsar-readonly"),
        ("canary", "pulsar-readonly", "pulsar-readonly"),
        ("x" * 53, "", f"{'x' * 53}"),
    ],
)
def test_each_release_has_objects_of_its_own(template, release, override, begin):
    values = [
        "finalizer=true",
        *(f"explicitLac.writers[0].{one}=x" for one in ("namespace", "configMap", "statefulSet")),
    ]
    values += [f"monitoring.{one}.enabled=true" for one in ("podMonitor", "rules", "dashboard")]
    plain, made = template(*values), template(*values, f"fullnameOverride={override}", release=release)
    renamed = json.loads(json.dumps(made).replace(f"{begin}-operator", "pulsar-readonly-operator"))
    for one in renamed:
        for holder in (one["metadata"], one.get("roleRef", {})):
            if holder:
                assert holder["name"].startswith((begin, "pulsar-readonly-operator"))
                holder["name"] = holder["name"].replace(begin, "pulsar-readonly", 1)
    assert by_name(renamed) == by_name(plain), "but for their names, and what refers to these"
    if begin != "pulsar-readonly":
        assert not set(by_name(made)) & set(by_name(plain))


def test_policies_of_two_releases_limit_different_accounts(template):
    ends = set()
    for release in ("pulsar-readonly", "canary"):
        made = template(release=release)
        (account,) = {one["metadata"]["name"] for one in made if one["kind"] == "ServiceAccount"}
        policies = [one["spec"] for one in made if one["kind"] == "ValidatingAdmissionPolicy"]
        (condition,) = {one["matchConditions"][0]["expression"] for one in policies}
        assert condition.endswith(f"request.userInfo.username.endsWith(':{account}')")
        ends.add(condition)
        (lease,) = {one.partition("/")[2] for one in container(made)["args"] if one.startswith("--lease=")}
        (rule,) = [one["validations"] for one in policies if "leases" in str(one["matchConstraints"])]
        assert rule[0]["expression"].strip() == f"object.metadata.name == '{lease}'"
    assert len(ends) == 2


def test_rights_of_people_can_be_left_out(template, kustomize):
    people = set(by_name(kustomize("manifests/user-roles")))
    assert len(people) == 3
    assert people <= set(by_name(template()))
    for values in (("rbac.userRoles=false",), ("rbac.create=false",), ("namespaces={orders}",)):
        assert not people & set(by_name(template(*values))), values


def test_images_by_tag_and_digest(template):
    digest = "sha256:" + "0" * 64
    assert container(template("image.repository=example.org/operator", "image.tag=x"))["image"] == (
        "example.org/operator:x"
    )
    assert container(template(f"image.digest={digest}", "image.tag=x"))["image"] == f"OPERATOR_IMAGE@{digest}"
    assert pod(template("imagePullSecrets={a}"))["imagePullSecrets"] == [{"name": "a"}]


def test_without_an_image_the_error_says_what_to_set(helm):
    done = plain_template_run(helm)
    assert done.returncode != 0
    assert "image.repository is missing: name the operator's image in your registry" in done.stderr


def test_no_manifest_names_an_image_that_somebody_else_could_own(kustomize):
    values = load_yaml((CHART / "values.yaml").read_text())
    assert (values["image"]["repository"], values["engineImage"]) == ("", "")
    for folder in ("manifests", "manifests/namespaced", "manifests/cluster-wide"):
        made = container(kustomize(folder))
        assert made["image"].startswith("OPERATOR_IMAGE"), "upper case: the kubelet rejects it as invalid"
        assert not [one for one in made["args"] if one.startswith("--engine-image")]


def test_the_pod_has_no_fixed_user_and_one_can_be_chosen(template):
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod(template())["securityContext"] == restricted, "OpenShift's restricted-v2 rejects a fixed user"
    assert pod(template("podSecurityContext.runAsUser=1000"))["securityContext"] == {**restricted, "runAsUser": 1000}


def test_the_budget_and_the_network_policy_can_be_left_out_and_metrics_be_limited(template):
    off = template("disruptionBudget.enabled=false", "networkPolicy.enabled=false")
    assert not {"PodDisruptionBudget", "NetworkPolicy"} & {one["kind"] for one in off}
    made = template("networkPolicy.monitoring[0].namespaceSelector.matchLabels.team=metrics")
    (policy,) = [one["spec"] for one in made if one["kind"] == "NetworkPolicy"]
    health, metrics = policy["ingress"]
    assert "from" not in health, "kubelets send probes from the nodes' addresses"
    assert metrics["from"] == [{"namespaceSelector": {"matchLabels": {"team": "metrics"}}}]


def test_every_setting_is_one_of_the_operator():
    words = load_yaml((CHART / "values.yaml").read_text())["settings"]
    snake = {"".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in word) for word in words}
    assert snake <= set(Settings.__dataclass_fields__)


def test_the_operator_understands_its_arguments(template):
    for values in ((), ("namespaces={a,b}", "log.level=debug", "engineImage=x:1", "log.format=text")):
        command, *arguments = container(template(*values))["args"]
        assert command == "operator"
        parser().parse_args(arguments)


def test_rights_and_account_can_be_given_by_others(template):
    kinds = {one["kind"] for one in template("rbac.create=false", "serviceAccount.create=false")}
    assert kinds == {"Deployment", "PodDisruptionBudget", "NetworkPolicy"}
    assert pod(template("serviceAccount.create=false", "serviceAccount.name=mine"))["serviceAccountName"] == "mine"
