"""Provenance, and releases as folders: built, replaced, compared and joined without a loss."""

import argparse
import dataclasses
import json
import os

import pytest

from devstack.errors import DevstackError
from devstack.release import build, checksums, command, compare, provenance
from devstack.release.outcome import Outcome
from lab.tests.release.conftest import ROOT


def release(folder, inputs, files, *, made=(), missing=None, bases=None):
    """A release with these files beside those that it always has."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    build.finish(ROOT, inputs, folder, "", bases or {}, Outcome(dict(missing or {}), set(made)))
    return folder


def test_the_statement_names_files_inputs_and_builder(inputs, tmp_path):
    out = release(
        tmp_path / "a", inputs, {"install.yaml": "a"}, missing={"image engine for arm64": "no"}, bases={"b": "0" * 64}
    )
    made = json.loads((out / provenance.FILE).read_text())
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    assert made["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {one["name"] for one in made["subject"]} == {"install.yaml", "MISSING.txt"}
    assert made["subject"][1]["digest"]["sha256"] == checksums.sha256(out / "install.yaml")
    definition = made["predicate"]["buildDefinition"]
    needed = definition["resolvedDependencies"]
    assert needed[0] == {"uri": f"git+{inputs.source}", "digest": {"gitCommit": inputs.commit}}
    locks = {one["uri"]: one["digest"]["sha256"] for one in needed[1:]}
    for name in ("requirements/engine.txt", "requirements/build.txt", "requirements/release.txt", "Dockerfile"):
        assert locks[name] == checksums.sha256(ROOT / name)
    assert needed[-1] == {"uri": "b", "name": "base image", "digest": {"sha256": "0" * 64}}
    assert definition["externalParameters"]["registry"] == inputs.registry
    assert definition["internalParameters"]["missing"] == {"image engine for arm64": "no"}
    assert made["predicate"]["runDetails"]["builder"]["id"] == provenance.LOCAL_BUILDER
    assert set(checksums.read(out)) == {"install.yaml", "MISSING.txt", provenance.FILE}


def test_the_statement_is_the_same_each_time(inputs, tmp_path):
    texts = [(release(tmp_path / name, inputs, {"b": "1", "a": "2"}) / provenance.FILE).read_bytes() for name in "xy"]
    assert texts[0] == texts[1]


def test_what_it_says_can_be_read_back(inputs, tmp_path):
    out = release(tmp_path / "a", inputs, {}, made={"one"}, missing={"two": "no"}, bases={"b": "1" * 64})
    said = provenance.read(out)
    assert (said.commit, said.version, said.registry) == (inputs.commit, "0.1.0", inputs.registry)
    assert (said.bases, said.outcome) == ({"b": "1" * 64}, Outcome({"two": "no"}, {"one"}))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"predicate": 7}'])
def test_another_file_of_that_name_is_no_provenance(tmp_path, text):
    (tmp_path / provenance.FILE).write_text(text)
    with pytest.raises(DevstackError, match="is no provenance of make -C lab release"):
        provenance.read(tmp_path)


def test_nothing_missing_needs_no_list(inputs, tmp_path):
    out = release(tmp_path / "a", inputs, {"a": "a"})
    assert not (out / "MISSING.txt").exists()
    assert build.report(out, Outcome()) == [f"2 files in {out}, 0 missing"]


def test_the_report_names_what_is_missing(inputs, tmp_path):
    outcome = Outcome()
    outcome.miss("image spark for arm64", "no\n engine")
    out = release(tmp_path / "a", inputs, {}, missing=outcome.missing)
    assert (out / "MISSING.txt").read_text() == "image spark for arm64: no engine\n"
    assert build.report(out, outcome) == [
        "missing: image spark for arm64: no engine",
        f"2 files in {out}, 1 missing (see MISSING.txt)",
    ]


def test_only_an_unchanged_earlier_release_is_replaced(inputs, tmp_path):
    out = release(tmp_path / "out", inputs, {"a": "old"})
    build.check_replaceable(out)
    build.check_replaceable(tmp_path / "absent")
    new = release(tmp_path / "new", inputs, {"b": "new"})
    build.replace(new, out)
    assert not (out / "a").exists()
    assert (out / "b").read_text() == "new"
    (out / "notes.txt").write_text("mine")
    with pytest.raises(DevstackError, match=r"has files that no release wrote: notes\.txt"):
        build.check_replaceable(out)
    (out / "notes.txt").unlink()
    (out / "b").write_text("changed")
    with pytest.raises(DevstackError, match="has files that no release wrote: b"):
        build.check_replaceable(out)


@pytest.mark.parametrize("kind", ["link to nothing", "link to a folder", "link to a file", "empty folder", "pipe"])
def test_what_is_no_file_is_foreign_too(inputs, tmp_path, kind):
    out = release(tmp_path / "out", inputs, {"a": "old"})
    foreign = out / "mine"
    if kind == "link to nothing":
        foreign.symlink_to(tmp_path / "absent")
    elif kind == "link to a folder":
        (tmp_path / "other").mkdir()
        foreign.symlink_to(tmp_path / "other")
    elif kind == "link to a file":
        foreign.symlink_to(out / "a")
    elif kind == "pipe":
        os.mkfifo(foreign)
    else:
        foreign.mkdir()
    with pytest.raises(DevstackError, match="has files that no release wrote: mine"):
        build.check_replaceable(out)


def test_another_folder_or_file_is_never_replaced(tmp_path):
    (tmp_path / "empty").mkdir()
    build.check_replaceable(tmp_path / "empty")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    for name in ("home", "file"):
        with pytest.raises(DevstackError, match="exists and is no earlier release"):
            build.check_replaceable(tmp_path / name)


def test_builds_that_differ_are_named(inputs, tmp_path):
    one = release(tmp_path / "a", inputs, {"same": "s", "wheel": "1", "only": "o"})
    other = release(tmp_path / "b", inputs, {"same": "s", "wheel": "2"})
    assert [line.partition(":")[0] for line in compare.differences(one, other)] == [
        "only",
        "provenance.intoto.json",
        "wheel",
    ]
    assert compare.differences(one, one) == []


def test_the_check_fails_where_two_builds_differ(inputs, tmp_path, monkeypatch):
    contents = iter("1122")
    monkeypatch.setattr(
        build, "build", lambda root, inputs, out, choice: release(out, inputs, {"wheel": next(contents)}) and Outcome()
    )
    choice = build.Choice(("amd64",), ("3.11",))
    assert compare.check(tmp_path, inputs, choice).missing == {}
    contents = iter("12")
    with pytest.raises(DevstackError, match="two builds of 0123456789ab differ in 2 files") as error:
        compare.check(tmp_path, inputs, choice)
    assert "wheel: " in error.value.hint


@pytest.fixture
def joining(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "export", lambda *_: ROOT)
    return lambda *folders: compare.join(ROOT, inputs, list(folders), tmp_path / "joined")


def test_two_machines_make_one_release(joining, inputs, tmp_path):
    no = {"wheel on arm64": "no compiler", "image spark": "no jars"}
    one = release(
        tmp_path / "a", inputs, {"sdist": "s", "x86.whl": "1"}, made={"wheel on amd64"}, missing=no, bases={"b": "1"}
    )
    other = release(tmp_path / "b", inputs, {"sdist": "s", "arm.whl": "2"}, made={"wheel on arm64"}, bases={"c": "2"})
    outcome = joining(one, other)
    assert outcome == Outcome({"image spark": "no jars"}, {"wheel on amd64", "wheel on arm64"})
    joined = tmp_path / "joined"
    assert checksums.read(joined) == checksums.digests(joined)
    assert set(checksums.read(joined)) == {"sdist", "x86.whl", "arm.whl", "MISSING.txt", provenance.FILE}
    assert provenance.read(joined).bases == {"b": "1", "c": "2"}


def test_machines_that_made_different_files_are_not_joined(joining, inputs, tmp_path):
    one = release(tmp_path / "a", inputs, {"sdist": "1"})
    other = release(tmp_path / "b", inputs, {"sdist": "2"})
    with pytest.raises(DevstackError, match="sdist differs between"):
        joining(one, other)
    assert not (tmp_path / "joined").exists()


def test_a_damaged_release_is_not_joined(joining, inputs, tmp_path):
    one = release(tmp_path / "a", inputs, {"sdist": "1"})
    (one / "sdist").write_text("tampered")
    with pytest.raises(DevstackError, match="are not those of its SHA256SUMS: sdist"):
        joining(one)


def test_a_release_of_another_commit_is_not_joined(inputs, joining, tmp_path):
    one = release(tmp_path / "a", dataclasses.replace(inputs, commit="f" * 40), {"sdist": "1"})
    with pytest.raises(DevstackError, match=r"has version 0\.1\.0 of commit ffffffffffff"):
        joining(one)


def test_complete_fails_where_something_is_missing(inputs, tmp_path, monkeypatch, capsys):
    out = release(tmp_path / "a", inputs, {}, missing={"one": "no"})
    monkeypatch.setattr(command.build, "build", lambda *_: Outcome({"one": "no"}))
    monkeypatch.setattr(command, "_inputs", lambda _: inputs)
    parser = argparse.ArgumentParser()
    command.add_commands(parser)
    words = ["build", "--version", "0.1.0", "--registry", inputs.registry, "--out", str(out)]
    args = parser.parse_args(words)
    assert args.run(args) == 0
    assert "missing: one: no" in capsys.readouterr().out
    args = parser.parse_args([*words, "--complete"])
    with pytest.raises(DevstackError, match="1 artefacts are missing"):
        args.run(args)
