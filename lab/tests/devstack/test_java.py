"""Which Java runs a release, and what is said where none does."""

import stat
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.pulsar import java


def installed(folder: Path, version: str) -> str:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)


@pytest.mark.parametrize(
    ("told", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "17-internal"', 17),
        ('java version "1.8.0_392"', 8),
        ("sh: java: not found", None),
        ("", None),
    ],
)
def test_java_version(told: str, major: int | None) -> None:
    assert java.java_major(told) == major


@pytest.mark.parametrize(
    ("own", "others", "release", "expected"),
    [
        ("17.0.2", [], "4.0.8", "own"),
        ("17.0.2", ["25"], "4.2.4", "own"),
        ("21.0.1", ["25"], "5.0.1", "own"),
        ("17.0.2", ["11.0.2", "21.0.3", "25"], "5.0.1", "25"),
        ("11.0.2", ["17.0.1"], "4.0.8", "17.0.1"),
        ("", ["25"], "5.0.1", "25"),
        ("17.0.2", ["11.0.2"], "5.0.1", "java is too old"),
        ("11.0.2", [], "4.0.8", "java is too old"),
        ("", [], "4.0.8", "java is missing"),
    ],
)
@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_which_java_runs_a_release(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, others: list[str], release: str, expected: str, by: str
) -> None:
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "jvm")
    for other in others:
        installed(tmp_path / "jvm" / other, other)
    home = tmp_path / "own"
    if own:
        installed(home, own)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(by, str(home) if by == "JAVA_HOME" else f"{home}/bin")
    if expected.startswith("java"):
        with pytest.raises(DevstackError, match=expected) as refused:
            java.java_environment(release)
        assert f"Pulsar {release} needs Java {java.needed_java(release)} or newer" in refused.value.hint
    else:
        chosen = java.java_environment(release)
        assert chosen == ({} if expected == "own" else {"JAVA_HOME": str(tmp_path / "jvm" / expected)})
