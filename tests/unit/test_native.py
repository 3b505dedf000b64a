"""The modules in C are optional for users, and built wherever CI runs: there their tests must not be left out unnoticed."""

import os
import tomllib
from pathlib import Path

import pytest
from readonly_engine import native

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", native.MODULES)
@pytest.mark.skipif(os.environ.get("CI") != "true", reason="a C compiler is optional; CI has one")
def test_it_is_built(name, monkeypatch):
    monkeypatch.delenv(native.PURE_VARIABLE, raising=False)
    assert native.load(name) is not None, "make venv builds it; its warnings are errors in CI"


@pytest.mark.parametrize("name", native.MODULES)
def test_it_can_be_left_out(name, monkeypatch):
    monkeypatch.setenv(native.PURE_VARIABLE, "1")
    assert native.load(name) is None


def test_every_one_is_built_with_the_package_and_may_be_missing():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    assert {module["name"] for module in built} == set(native.MODULES)
    assert all(module["optional"] for module in built)
    assert all((ROOT / source).exists() for module in built for source in module["sources"])
