"""The bundle for the Operator Lifecycle Manager: what OLM requires, and the same rights, pods and kinds as everywhere else."""

import json

import pytest
from readonly_operator.api import olm
from readonly_operator.api.crds import DEFINITIONS, files
from readonly_operator.command import parser
from readonly_operator.kube.names import VERSION

from tests.support.yaml_documents import load_all_yaml, load_yaml
from tests.unit.delivery.conftest import ROOT

OPERATOR_IMAGE, ENGINE_IMAGE = "images.example.org/a/operator:0.1.0", "images.example.org:5000/engine:1"
CSV = "manifests/pulsar-readonly-operator.clusterserviceversion.yaml"
OWNED = {(f"{one.kind.plural}.{one.kind.group}", VERSION, one.kind.kind) for one in DEFINITIONS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A bundle as the command writes it."""
    path = tmp_path_factory.mktemp("olm")
    assert olm.main(arguments(path)) == 0
    return path


def arguments(folder, operator=OPERATOR_IMAGE, engine=ENGINE_IMAGE, *more):
    images = ["--operator-image", operator, "--engine-image", engine]
    return [str(folder), "--root", str(ROOT), *images, *more]


@pytest.fixture(scope="module")
def csv(folder):
    return load_yaml((folder / CSV).read_text())


def manifest(path: str, kind: str) -> dict:
    return next(one for one in load_all_yaml((ROOT / "manifests" / path).read_text()) if one["kind"] == kind)


def test_the_folder_has_one_csv_all_definitions_and_the_metadata(folder):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {
        CSV,
        "manifests/pulsar-readonly-operator.poddisruptionbudget.yaml",
        *(f"manifests/{name}" for name in files()),
        "metadata/annotations.yaml",
        "bundle.Dockerfile",
    }
    for name, text in files().items():
        assert (folder / "manifests" / name).read_text() == text
    assert sum((folder / name).stat().st_size for name in found) < 1_000_000, "OLM unpacks a bundle into a ConfigMap"


def test_annotations_are_the_labels_of_the_image_and_name_the_channel(folder):
    made = load_yaml((folder / "metadata" / "annotations.yaml").read_text())["annotations"]
    ends = {name.removeprefix("operators.operatorframework.io.bundle."): value for name, value in made.items()}
    assert ends == {
        "mediatype.v1": "registry+v1",
        "manifests.v1": "manifests/",
        "metadata.v1": "metadata/",
        "package.v1": "pulsar-readonly-operator",
        "channels.v1": "alpha",
        "channel.default.v1": "alpha",
    }
    lines = (folder / "bundle.Dockerfile").read_text().splitlines()
    assert {line.removeprefix("LABEL ") for line in lines if line.startswith("LABEL")} == {
        f"{name}={value}" for name, value in made.items()
    }
    assert [line for line in lines if line.startswith(("FROM", "COPY", "RUN"))] == [
        "FROM scratch",
        "COPY manifests /manifests/",
        "COPY metadata /metadata/",
    ]


def test_every_definition_is_owned_and_described(csv):
    owned = csv["spec"]["customresourcedefinitions"]["owned"]
    assert {(one["name"], one["version"], one["kind"]) for one in owned} == OWNED
    assert len(owned) == len(OWNED)
    for one in owned:
        definition = next(each for each in DEFINITIONS if each.kind.kind == one["kind"])
        schema = definition.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        for section in ("spec", "status"):
            described = one[f"{section}Descriptors"]
            assert [each["path"] for each in described] == list(schema[section]["properties"])
            assert all(each["displayName"] and each["description"] for each in described)
        assert one["displayName"]
        assert one["description"]
    shown = {each["path"]: each.get("x-descriptors") for each in owned[0]["statusDescriptors"]}
    assert shown["conditions"] == ["urn:alm:descriptor:io.kubernetes.conditions"]


def test_each_owned_kind_has_an_example(csv):
    examples = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    found = {(one["apiVersion"].partition("/")[2], one["kind"]) for one in examples}
    assert found == {(version, kind) for _, version, kind in OWNED}
    assert all("namespace" not in one["metadata"] for one in examples)


def test_the_rights_are_those_of_the_manifests(csv):
    install = csv["spec"]["install"]
    assert install["strategy"] == "deployment"
    account = manifest("operator/service-account.yaml", "ServiceAccount")["metadata"]["name"]
    rules = manifest("cluster-wide/rbac.yaml", "ClusterRole")["rules"]
    assert install["spec"]["clusterPermissions"] == [{"serviceAccountName": account, "rules": rules}]
    own = manifest("operator/lease.yaml", "Role")["rules"]
    assert install["spec"]["permissions"] == [{"serviceAccountName": account, "rules": own}]


def test_the_deployment_is_that_of_the_manifests_with_the_given_images(csv):
    (made,) = csv["spec"]["install"]["spec"]["deployments"]
    expected = manifest("operator/deployment.yaml", "Deployment")["spec"]
    container = expected["template"]["spec"]["containers"][0]
    container["image"] = OPERATOR_IMAGE
    container["args"].append(f"--engine-image={ENGINE_IMAGE}")
    assert made["spec"] == expected
    assert made["spec"]["selector"]["matchLabels"].items() <= made["spec"]["template"]["metadata"]["labels"].items()
    options = parser().parse_args(container["args"][1:])
    assert (options.engine_image, options.all_namespaces) == (ENGINE_IMAGE, True)
    assert csv["spec"]["relatedImages"] == [
        {"name": "operator", "image": OPERATOR_IMAGE},
        {"name": "engine", "image": ENGINE_IMAGE},
    ]
    assert csv["metadata"]["annotations"]["containerImage"] == OPERATOR_IMAGE


def test_the_version_is_the_projects_and_the_kubernetes_that_of_the_chart(csv):
    chart = load_yaml((ROOT / "charts" / "pulsar-readonly" / "Chart.yaml").read_text())
    assert csv["metadata"]["name"] == f"pulsar-readonly-operator.v{chart['version']}"
    assert csv["spec"]["version"] == chart["version"]
    assert f">={csv['spec']['minKubeVersion']}-0" == chart["kubeVersion"]
    assert "replaces" not in csv["spec"]


def test_the_budget_goes_where_olm_puts_the_operator(folder):
    budget = load_yaml((folder / "manifests" / "pulsar-readonly-operator.poddisruptionbudget.yaml").read_text())
    expected = manifest("operator/disruption-budget.yaml", "PodDisruptionBudget")
    assert "namespace" not in budget["metadata"]
    assert budget["spec"] == expected["spec"]


def test_digests_make_it_usable_without_a_connection(tmp_path, csv):
    digest = "@sha256:" + "0" * 64
    assert olm.main(arguments(tmp_path, f"a/b{digest}", f"a/c{digest}", "--replaces", "0.0.9")) == 0
    made = load_yaml((tmp_path / CSV).read_text())
    key = "features.operators.openshift.io/disconnected"
    assert (made["metadata"]["annotations"][key], csv["metadata"]["annotations"][key]) == ("true", "false")
    assert made["spec"]["replaces"] == "pulsar-readonly-operator.v0.0.9"


@pytest.mark.parametrize(
    ("operator", "engine", "more", "reads"),
    [
        ("", ENGINE_IMAGE, (), "--operator-image must"),
        ("a b:1", ENGINE_IMAGE, (), "--operator-image must be an image reference"),
        (OPERATOR_IMAGE, "images.example.org:5000/engine", (), "--engine-image must have a tag or a digest"),
        (OPERATOR_IMAGE, ENGINE_IMAGE, ("--replaces", "latest"), "--replaces must be a version"),
        (OPERATOR_IMAGE, ENGINE_IMAGE, ("--replaces", "0.1.0"), "--replaces must be another version"),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_written(tmp_path, capsys, operator, engine, more, reads):
    assert olm.main(arguments(tmp_path / "out", operator, engine, *more)) == 1
    assert reads in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
