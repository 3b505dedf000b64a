"""Chart and manifests of a release: what Helm and kustomize make of them is what the sources are, with the release's images."""

import io
import json
import re
import tarfile

import pytest
from readonly_operator.command import parser

from devstack.errors import DevstackError
from devstack.release import build, chart, manifests
from devstack.release.archives import write_tar_gz
from devstack.release.inputs import ReleaseInputs
from tests.support.yaml_documents import load_all_yaml, load_yaml
from tests.unit.delivery.conftest import KUBERNETES, NAMESPACE, ROOT

INPUTS = ReleaseInputs("0.1.0", "registry.example.com/team", "0" * 40, 1_700_000_000)
OPERATOR = "registry.example.com/team/pulsar-readonly-operator"
ENGINE = "registry.example.com/team/pulsar-readonly-engine:0.1.0"


def operator(objects):
    (found,) = [one for one in objects if one["kind"] == "Deployment"]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return container


def by_name(objects):
    found = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in objects}
    assert len(found) == len(objects)
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("chart") / chart.chart_file(INPUTS)
    write_tar_gz(path, chart.chart_members(ROOT, INPUTS), INPUTS.epoch)
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The bundle for kustomize, unpacked."""
    folder = tmp_path_factory.mktemp("bundle")
    for name, member in manifests.kustomize_members(ROOT, INPUTS).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(member.data)
    return folder / "pulsar-readonly-0.1.0"


def test_the_chart_needs_no_value(helm, archive):
    done = helm("template", "release", str(archive), "--namespace", NAMESPACE, "--kube-version", KUBERNETES)
    assert done.returncode == 0, done.stderr
    container = operator([one for one in load_all_yaml(done.stdout) if one])
    assert container["image"] == f"{OPERATOR}:0.1.0"
    assert f"--engine-image={ENGINE}" in container["args"]


def test_only_the_images_of_the_values_differ_and_comments_stay():
    text = chart.chart_members(ROOT, INPUTS)["pulsar-readonly/values.yaml"].data.decode()
    source = (ROOT / "charts/pulsar-readonly/values.yaml").read_text()
    pairs = [(old, new) for old, new in zip(source.splitlines(), text.splitlines(), strict=True) if old != new]
    assert [new for _, new in pairs] == [f'  repository: "{OPERATOR}"', f'engineImage: "{ENGINE}"']
    members = chart.chart_members(ROOT, INPUTS)
    assert {name for name in members if "/crds/" in name}
    assert "pulsar-readonly/.helmignore" not in members


def test_a_chart_without_such_a_value_is_named(tmp_path):
    folder = tmp_path / "charts" / "pulsar-readonly"
    folder.mkdir(parents=True)
    (folder / ".helmignore").touch()
    (folder / "Chart.yaml").write_text("version: 1\nappVersion: 1\n")
    (folder / "values.yaml").write_text("image: {}\n")
    with pytest.raises(DevstackError, match=r"values\.yaml of the chart has the field repository 0 times"):
        chart.chart_members(tmp_path, INPUTS)


def test_the_one_yaml_has_the_objects_of_the_manifests_with_the_images(kustomize):
    made = by_name(list(load_all_yaml(manifests.install_yaml(ROOT, INPUTS))))
    expected = by_name(kustomize("manifests/cluster-wide"))
    container = operator(list(expected.values()))
    container["image"] = f"{OPERATOR}:0.1.0"
    container["args"].append(f"--engine-image={ENGINE}")
    assert made == expected
    assert parser().parse_args(container["args"][1:]).engine_image == ENGINE


def test_definitions_and_namespace_come_before_what_needs_them():
    kinds = [one["kind"] for one in load_all_yaml(manifests.install_yaml(ROOT, INPUTS))]
    assert kinds[:4] == ["CustomResourceDefinition"] * 3 + ["Namespace"]


def test_the_definitions_alone_are_those_of_the_project():
    made = by_name(list(load_all_yaml(manifests.definitions(ROOT))))
    assert len(made) == 3
    files = (load_yaml(path.read_text()) for path in (ROOT / "crds").glob("readonly*.yaml"))
    assert made == by_name(list(files))


def test_the_bundle_gives_the_same_as_the_one_yaml(kustomize, bundle):
    expected = by_name(list(load_all_yaml(manifests.install_yaml(ROOT, INPUTS))))
    assert by_name(kustomize(str(bundle))) == expected


def test_the_bundle_has_an_overlay_for_one_namespace(kustomize, bundle):
    made = kustomize(str(bundle / "namespaced"))
    container = operator(made)
    assert container["image"] == f"{OPERATOR}:0.1.0"
    assert {"--namespace=$(POD_NAMESPACE)", f"--engine-image={ENGINE}"} <= set(container["args"])
    assert not [one for one in made if one["kind"].startswith(("ClusterRole", "CustomResource"))]


def test_the_bundle_has_what_users_add_and_nothing_of_the_devstack(kustomize, bundle):
    for name in ("admission-policy", "explicit-lac", "user-roles"):
        assert kustomize(str(bundle / "manifests" / name)) == kustomize(f"manifests/{name}")
    assert not (bundle / "manifests" / "overlays").exists()
    assert not [path for path in bundle.rglob("*.yaml") if "localhost/" in path.read_text()]


def test_a_feature_of_kustomize_that_the_one_yaml_would_lack_is_named(tmp_path):
    folder = tmp_path / "manifests" / "cluster-wide"
    folder.mkdir(parents=True)
    (folder / "kustomization.yaml").write_text("resources: []\nnamePrefix: x\n")
    with pytest.raises(
        DevstackError, match=r"cluster-wide/kustomization\.yaml has fields that install\.yaml would lack"
    ):
        manifests.install_yaml(tmp_path, INPUTS)
    (folder / "kustomization.yaml").write_text("resources: []\n")
    with pytest.raises(DevstackError, match="has no Deployment of the operator"):
        manifests.install_yaml(tmp_path, INPUTS)


def test_all_files_that_need_no_other_program_are_written_the_same_each_time(tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        build.write_files(ROOT, INPUTS, folder)
    names = {path.relative_to(folders[0]).as_posix() for path in folders[0].rglob("*") if path.is_file()}
    assert names == {
        "crds.yaml",
        "install.yaml",
        "pulsar-readonly-0.1.0.tgz",
        "pulsar-readonly-0.1.0-examples.tar.gz",
        "pulsar-readonly-0.1.0-kustomize.tar.gz",
        "pulsar-readonly-0.1.0-olm.tar.gz",
        *(f"pulsar-readonly-0.1.0-{part}.cdx.json" for part in ("engine", "operator", "spark")),
        *(f"requirements-{part}.txt" for part in ("engine", "operator", "spark")),
    }
    assert all((folders[0] / name).read_bytes() == (folders[1] / name).read_bytes() for name in names)


def test_the_bundle_of_olm_names_the_images(tmp_path):
    build.write_files(ROOT, INPUTS, tmp_path)
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "pulsar-readonly-0.1.0-olm.tar.gz").read_bytes())) as tar:
        names = tar.getnames()
        (path,) = [name for name in names if name.endswith("clusterserviceversion.yaml")]
        csv = load_yaml(tar.extractfile(path))
    assert [one["image"] for one in csv["spec"]["relatedImages"]] == [f"{OPERATOR}:0.1.0", ENGINE]
    assert "pulsar-readonly-0.1.0-olm/bundle.Dockerfile" in names
    assert json.loads(csv["metadata"]["annotations"]["alm-examples"])


def test_no_release_file_of_the_project_names_a_registry():
    paths = [
        *(ROOT / "lab" / "devstack" / "release").glob("*.py"),
        *(ROOT / ".github" / "workflows").glob("*.yaml"),
        *(ROOT / "docs" / "how-to").glob("*.md"),
        ROOT / "Makefile",
    ]
    known = re.compile(r"\b(?:docker\.io|ghcr\.io|quay\.io|gcr\.io|registry\.k8s\.io|public\.ecr\.aws|pypi\.org)\b")
    assert len(paths) > 20
    assert [path for path in paths if known.search(path.read_text())] == []


def test_the_pages_can_be_followed_without_the_repository(tmp_path):
    """The tutorial applies an example, the rollback compares by a script, and the package needs the tested packages."""
    build.write_files(ROOT, INPUTS, tmp_path)
    with tarfile.open(tmp_path / "pulsar-readonly-0.1.0-examples.tar.gz") as tar:
        names = set(tar.getnames())
        quickstart = tar.extractfile("examples/quickstart.yaml")
        assert quickstart is not None
        assert quickstart.read() == (ROOT / "examples" / "quickstart.yaml").read_bytes()
    assert "examples/canary/compare.py" in names
    assert {name.partition("/")[0] for name in names} == {"examples"}
    for name in ("engine", "operator", "spark"):
        lock = (tmp_path / f"requirements-{name}.txt").read_bytes()
        assert lock == (ROOT / "requirements" / f"{name}.txt").read_bytes()
        assert b"--hash=sha256:" in lock
