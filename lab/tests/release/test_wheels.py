"""Wheels: every C module for the right architecture, and a reason for each wheel that cannot be built."""

import zipfile

import pytest
from readonly_engine import build_info, native

from devstack.errors import DevstackError
from devstack.release import wheels
from devstack.release.outcome import Outcome
from devstack.release.wheels import WheelTarget
from lab.tests.release.conftest import ROOT

MODULES = {name.replace(".", "/") for name in native.MODULES}
X86, ARM = b"\x7fELF".ljust(18, b"\0") + b"\x3e\0", b"\x7fELF".ljust(18, b"\0") + b"\xb7\0"


def wheel(path, heads):
    with zipfile.ZipFile(path, "w") as made:
        for name, head in heads.items():
            made.writestr(f"{name}.cpython-311-x86_64-linux-gnu.so", head)
        made.writestr("readonly_engine/__init__.py", "")
    return path


def test_the_c_modules_are_those_of_the_project():
    assert wheels.expected_modules(ROOT) == MODULES


def test_a_wheel_with_all_c_modules_is_right(tmp_path):
    wheels.check_wheel(wheel(tmp_path / "a.whl", dict.fromkeys(MODULES, X86)), MODULES, "amd64")
    wheels.check_wheel(wheel(tmp_path / "b.whl", dict.fromkeys(MODULES, ARM)), MODULES, "arm64")


def test_a_module_that_did_not_compile_is_named(tmp_path):
    heads = dict.fromkeys(MODULES - {"readonly_engine/net/_send"}, X86)
    with pytest.raises(DevstackError, match=r"a\.whl lacks the C modules readonly_engine/net/_send"):
        wheels.check_wheel(wheel(tmp_path / "a.whl", heads), MODULES, "amd64")


@pytest.mark.parametrize("head", [ARM, b"#!/bin/sh", b""])
def test_a_module_of_another_architecture_is_named(tmp_path, head):
    heads = {**dict.fromkeys(MODULES, X86), "readonly_engine/net/_send": head}
    with pytest.raises(DevstackError, match=r"readonly_engine/net/_send in a\.whl is not compiled for amd64"):
        wheels.check_wheel(wheel(tmp_path / "a.whl", heads), MODULES, "amd64")


def test_the_environment_of_a_build_has_no_flags_and_paths_of_the_machine(inputs, monkeypatch):
    monkeypatch.setenv("CFLAGS", "-march=native")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    made = wheels.build_environment(inputs)
    assert made["CFLAGS"] == "-g0"
    assert made["SOURCE_DATE_EPOCH"] == "1700000000"
    assert made["PYTHONHASHSEED"] == "0"
    assert "PYTHONPATH" not in made


@pytest.mark.parametrize(
    "name",
    ["CC", "CPPFLAGS", "LDSHARED", "LDFLAGS", "CPATH", "LIBRARY_PATH", "_PYTHON_HOST_PLATFORM", "SETUPTOOLS_EXT_SUFFIX", "OPT"],
)  # fmt: skip
def test_a_build_for_the_own_machine_has_no_other_compiler_and_no_other_platform(inputs, monkeypatch, name):
    """Each changed the bytes of a wheel, or its tag, from one machine to another."""
    monkeypatch.setenv(name, "other")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com")
    made = wheels.build_environment(inputs)
    assert made.get(name) != "other"
    assert made["HTTPS_PROXY"] == "http://proxy.example.com"


@pytest.mark.parametrize(
    ("files", "right"),
    [
        (["cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64"], True),
        (["cp311-cp311-manylinux_2_28_aarch64", "cp311-cp311-manylinux_2_17_x86_64"], True),
        (["cp311-cp311-linux_x86_64"], False),
        (["cp312-cp312-manylinux_2_17_x86_64"], False),
        (["cp311-cp311-manylinux_2_28_aarch64"], False),
        (["cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_28_x86_64"], False),
        ([], False),
    ],
)
def test_a_wheel_has_one_manylinux_tag_of_its_python_and_machine(tmp_path, files, right):
    for name in files:
        (tmp_path / f"pulsar_readonly-0.1.0-{name}.whl").touch()
    if right:
        wheels.check_tag(tmp_path, WheelTarget("3.11", "amd64"), "0.1.0")
    else:
        with pytest.raises(
            DevstackError, match=r"for the wheel for Python 3\.11 on amd64, not one with a manylinux tag"
        ):
            wheels.check_tag(tmp_path, WheelTarget("3.11", "amd64"), "0.1.0")


@pytest.mark.parametrize("text", [None, "{}", build_info.content("f" * 40)])
def test_a_wheel_without_the_commit_is_named(tmp_path, inputs, text):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("readonly_engine/__init__.py", "")
        if text is not None:
            made.writestr("readonly_engine/build-info.json", text)
    with pytest.raises(DevstackError, match=r"a\.whl does not have the commit 0123456789ab"):
        wheels.check_commit(path, inputs.commit)


def test_a_wheel_with_the_commit_is_right(tmp_path, inputs):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("readonly_engine/build-info.json", build_info.content(inputs.commit))
    wheels.check_commit(path, inputs.commit)


def test_a_cross_compiler_gets_the_other_platform():
    made = wheels.cross_environment(WheelTarget("3.12", "arm64"))
    assert made["CC"] == "aarch64-linux-gnu-gcc"
    assert made["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
    assert made["SETUPTOOLS_EXT_SUFFIX"] == ".cpython-312-aarch64-linux-gnu.so"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with Python 3.11, its headers and the programs that a test adds."""
    include = tmp_path / "include" / "python3.11"
    include.mkdir(parents=True)
    (include / "pyconfig.h").write_text("#define SIZEOF_LONG 8\n")
    programs = set()
    monkeypatch.setattr(wheels, "succeeds", lambda argv: argv[0] == "python3.11")
    monkeypatch.setattr(wheels, "run", lambda *_, **__: f"{include}\n")
    monkeypatch.setattr(wheels.shutil, "which", lambda name: f"/bin/{name}" if name in programs else None)
    return include, programs


def test_without_the_python_the_reason_names_it(machine):
    assert "python3.13 with its module venv is not on this machine" in wheels.obstacle(
        WheelTarget("3.13", "amd64"), "amd64"
    )
    assert wheels.obstacle(WheelTarget("3.11", "amd64"), "amd64") is None


def test_without_a_cross_compiler_the_reason_names_it_and_the_other_way(machine):
    reason = wheels.obstacle(WheelTarget("3.11", "arm64"), "amd64")
    assert "no cross compiler aarch64-linux-gnu-gcc: install gcc-aarch64-linux-gnu" in reason
    assert "python -m devstack release join" in reason


def test_a_cross_compiler_needs_headers_of_the_other_architecture(machine):
    include, programs = machine
    programs.add("aarch64-linux-gnu-gcc")
    assert wheels.obstacle(WheelTarget("3.11", "arm64"), "amd64") is None
    (include / "pyconfig.h").write_text("# include <aarch64-linux-gnu/python3.11/pyconfig.h>\n")
    assert "no headers for arm64" in wheels.obstacle(WheelTarget("3.11", "arm64"), "amd64")
    own = include.parent / "aarch64-linux-gnu" / "python3.11" / "pyconfig.h"
    own.parent.mkdir(parents=True)
    own.touch()
    assert wheels.obstacle(WheelTarget("3.11", "arm64"), "amd64") is None
    (include / "pyconfig.h").unlink()
    assert "has no headers" in wheels.obstacle(WheelTarget("3.11", "arm64"), "amd64")


@pytest.fixture
def building(machine, monkeypatch, tmp_path, inputs):
    """Build wheels with a compiler that fails for the architectures of a set."""
    _, programs = machine
    programs.add("aarch64-linux-gnu-gcc")
    failing = set()

    def build(tree, sdist, inputs, target, host, work):
        if target.architecture in failing:
            raise DevstackError("building failed", "unknown option -m64")
        return tmp_path / "plain.whl"

    monkeypatch.setattr(wheels, "_build", build)
    monkeypatch.setattr(wheels, "_tag", lambda *_: None)

    def start(*architectures):
        outcome = Outcome()
        targets = [WheelTarget("3.11", one) for one in architectures]
        wheels.build_wheels(tmp_path, tmp_path, inputs, targets, "amd64", tmp_path, tmp_path, outcome)
        return outcome

    return start, failing


def test_a_cross_build_that_fails_is_missing_with_the_compilers_words(building):
    start, failing = building
    failing.add("arm64")
    outcome = start("amd64", "arm64")
    assert outcome.made == {"wheel for Python 3.11 on amd64"}
    assert outcome.missing == {"wheel for Python 3.11 on arm64": "building failed unknown option -m64"}


def test_a_build_for_the_own_machine_that_fails_ends_the_release(building):
    start, failing = building
    failing.add("amd64")
    with pytest.raises(DevstackError, match="building failed"):
        start("amd64")


def test_without_auditwheel_the_plain_wheel_stays_and_is_reported(monkeypatch, tmp_path, inputs):
    def none(*_):
        raise DevstackError("installing failed", "no index")

    monkeypatch.setattr(wheels, "_environment", none)
    plain = tmp_path / "a-linux_x86_64.whl"
    plain.write_bytes(b"wheel")
    outcome = Outcome()
    wheels._tag(tmp_path, plain, WheelTarget("3.11", "amd64"), inputs, tmp_path, tmp_path / "out", outcome)
    assert (tmp_path / "out" / plain.name).read_bytes() == b"wheel"
    assert (
        "a-linux_x86_64.whl is in its place" in outcome.missing["manylinux tag of the wheel for Python 3.11 on amd64"]
    )
