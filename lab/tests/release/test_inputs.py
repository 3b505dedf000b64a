"""Version, registry and commit of a release: bad ones are named before anything is built."""

import shutil
import subprocess

import pytest

from devstack.errors import DevstackError
from devstack.release import inputs as module
from devstack.release import tree
from lab.tests.release.conftest import ROOT

FILES = (
    "pyproject.toml",
    "engine/readonly_engine/__init__.py",
    "charts/pulsar-readonly/Chart.yaml",
    "manifests/operator/kustomization.yaml",
)
REGISTRY = "registry.example.com/team"


def git(folder, *arguments):
    who = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "tag.gpgsign=false",
    ]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True, timeout=20
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the files that have the version."""
    root = tmp_path / "checkout"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / name)
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first", "--date=2026-01-02T03:04:05Z")
    return root


@pytest.mark.parametrize(
    "value", ["", "1", "1.2", "v0.1.0", "0.1.0-rc1", "01.0.0", "0.1.0\n", "0.1.0;id", "..", "0.1.x"]
)
def test_a_version_has_three_numbers(value):
    with pytest.raises(DevstackError, match=r"VERSION must be X\.Y\.Z, for example 0\.1\.0, not "):
        module.parse_version(value)


@pytest.mark.parametrize(
    "value",
    [
        "registry.example.com",
        "registry.example.com/team",
        "registry.example.com:5000/a/b-c",
        "localhost/a",
        "mirror:5000/a",
    ],
)
def test_a_registry_is_a_host_and_a_path(value):
    assert module.parse_registry(value) == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "team",
        "team/images",
        "https://registry.example.com",
        "registry.example.com/",
        "registry.example.com/team:1",
        "registry.example.com/Team",
        "registry.example.com/a b",
        "registry.example.com/../a",
        "registry.example.com/a@sha256",
        "user@registry.example.com/a",
        "registry.example.com/a\n",
        "registry.example.com/" + "a" * 200,
        "$(id).example.com",
    ],
)
def test_another_registry_is_named_with_the_right_form(value):
    with pytest.raises(DevstackError, match="REGISTRY must be host and path of your registry") as error:
        module.parse_registry(value)
    assert "no scheme, no tag" in error.value.hint


@pytest.mark.parametrize(
    "value", ["no uri", "https://user:secret@git.example.com/a", "https://git.example.com/?token=a"]
)
def test_a_source_without_secrets_is_wanted_and_none_is_shown(value):
    with pytest.raises(DevstackError, match="SOURCE must be a URI without a login and a query") as error:
        module.parse_uri(value, "SOURCE")
    assert "secret" not in str(error.value)


def test_image_names_begin_with_the_registry(inputs):
    assert inputs.image("operator") == "registry.example.com/team/pulsar-readonly-operator:0.1.0"


def test_the_commit_and_its_time_come_from_the_checkout(checkout, monkeypatch):
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
    git(checkout, "config", "log.showSignature", "true")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    made = module.from_checkout(checkout, "0.1.0", REGISTRY)
    assert (made.commit, made.epoch) == (git(checkout, "rev-parse", "HEAD"), 1767323045)


def test_changed_files_are_refused_and_others_are_not_looked_at(checkout):
    (checkout / "notes.txt").write_text("not tracked")
    module.from_checkout(checkout, "0.1.0", REGISTRY)
    (checkout / "pyproject.toml").write_text("changed")
    with pytest.raises(DevstackError, match=r"files differ from the commit: pyproject\.toml"):
        module.from_checkout(checkout, "0.1.0", REGISTRY)


def test_a_tag_of_another_commit_is_refused(checkout):
    git(checkout, "tag", "-a", "v0.1.0", "-m", "tag")
    module.from_checkout(checkout, "0.1.0", REGISTRY)
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    with pytest.raises(DevstackError, match=r"the tag v0\.1\.0 names commit"):
        module.from_checkout(checkout, "0.1.0", REGISTRY)


def test_outside_of_git_it_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(DevstackError, match="asking git for the commit"):
        module.from_checkout(tmp_path, "0.1.0", REGISTRY)


def test_every_file_of_the_project_has_one_version():
    found = module.versions(ROOT)
    assert len(found) == 5
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_another_version_is_named(checkout, name):
    path = checkout / name
    path.write_text(path.read_text().replace("0.1.0", "0.2.0"))
    with pytest.raises(DevstackError, match=r"VERSION is 0\.1\.0, and .* has 0\.2\.0") as error:
        module.check_versions(checkout, "0.1.0")
    assert name in str(error.value)


def test_the_tree_is_the_commit_with_its_hash_and_fixed_modes(checkout, tmp_path):
    script = checkout / "run"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    git(checkout, "add", "run")
    git(checkout, "commit", "-q", "-m", "script")
    (checkout / "notes.txt").write_text("not tracked")
    made = module.from_checkout(checkout, "0.1.0", REGISTRY)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "left.txt").write_text("of an earlier run")
    found = tree.export(checkout, made, tmp_path / "tree")
    names = {path.relative_to(found).as_posix() for path in found.rglob("*") if path.is_file()}
    assert names == {*FILES, "run", "engine/readonly_engine/build-info.json"}
    assert made.commit in (found / "engine/readonly_engine/build-info.json").read_text()
    assert (found / "run").stat().st_mode & 0o777 == 0o755
    assert {int((found / name).stat().st_mtime) for name in FILES} == {made.epoch}
