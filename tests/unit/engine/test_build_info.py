"""The commit comes from the built package's file, else from the checkout, else it is unknown; C modules are named."""

import platform
import subprocess

import pytest
from readonly_engine import build_info, native

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True, timeout=20
    )
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path):
    """The package in a folder that is not a checkout."""
    folder = tmp_path / "engine" / "readonly_engine"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def checkout(package):
    root = package.parents[1]
    (root / "pyproject.toml").write_text("[project]\n")
    git(root, "init", "-q")
    git(root, "add", "pyproject.toml")
    git(root, "commit", "-q", "-m", "first")
    return root


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"commit": 7}', '{"commit": "main"}', '{"commit": "<a>"}', "\0"]
)
def test_a_damaged_file_names_no_commit(package, text):
    (package / "build-info.json").write_text(text)
    assert (build_info.commit(package), build_info.built_commit(package)) == ("unknown", "")


def test_without_file_and_checkout_it_is_unknown(package):
    assert (build_info.commit(package), build_info.built_commit(package)) == ("unknown", "")


def test_a_checkout_has_the_commit_of_git_and_a_mark_for_changes(checkout, package):
    head = git(checkout, "rev-parse", "HEAD")
    assert build_info.commit(package) == head
    (checkout / "new.txt").write_text("not tracked")
    assert build_info.commit(package) == head
    (checkout / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    assert build_info.commit(package) == f"{head}-dirty"


def test_the_file_wins_over_a_checkout_that_vendors_the_sources(checkout, package):
    (package / "build-info.json").write_text(build_info.content(COMMIT))
    assert build_info.commit(package) == build_info.built_commit(package) == COMMIT


def test_without_git_it_is_unknown(checkout, package, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert build_info.commit(package) == "unknown"


@pytest.mark.parametrize("commit", ["", "main", COMMIT[:12], COMMIT.upper()])
def test_only_a_full_hash_is_written(commit):
    with pytest.raises(ValueError, match="commit must be a full hash"):
        build_info.content(commit)


def test_the_report_says_why_no_c_module_is_used(monkeypatch):
    monkeypatch.setenv(native.PURE_VARIABLE, "1")
    assert build_info.report().splitlines()[3] == "native modules: none (PULSAR_READONLY_PURE=1)"


def test_the_report_says_that_none_could_be_loaded(monkeypatch):
    monkeypatch.delenv(native.PURE_VARIABLE, raising=False)
    monkeypatch.setattr(native, "load", lambda _: None)
    assert (
        build_info.report()
        .splitlines()[3]
        .startswith("native modules: none; not loaded: readonly_engine.wire._entries, ")
    )


def test_the_labels_of_the_metric_name_the_build(monkeypatch):
    monkeypatch.setattr(build_info, "commit", lambda: COMMIT)
    found = build_info.labels()
    assert (found["commit"], found["python"]) == (COMMIT, platform.python_version())
    assert set(found["native_modules"].split(",")) <= {"entries", "acks", "send", "decode", "avro", "none"}
    monkeypatch.setenv(native.PURE_VARIABLE, "1")
    assert build_info.labels()["native_modules"] == "none"
