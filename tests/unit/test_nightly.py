"""The list of the tests that `make test` leaves out names tests that exist, and leaves most of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.nightly import NIGHTLY, is_nightly

ROOT = Path(__file__).parents[2]
FILES = [path for folder in ("integration", "e2e") for path in (ROOT / "tests" / folder).glob("test_*.py")]
SHARE = 0.7
"""Largest share of the tests of servers that may be nightly, as functions: most subjects keep a test in `make test`."""


def functions_of(path: Path) -> list[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = (node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions))
    return [name for name in found if name.startswith("test_")]


@pytest.mark.parametrize("file", NIGHTLY)
def test_what_is_listed_is_there(file):
    functions = functions_of(ROOT / file)
    names = {name.partition("[")[0] for name in NIGHTLY[file]}
    assert names <= set(functions)
    assert list(NIGHTLY[file]) == sorted(NIGHTLY[file])
    if names:
        assert names < set(functions) or any("[" in name for name in NIGHTLY[file]), "list the file without names"


def test_a_part_of_the_tests_of_servers_stays():
    tests = [f"{path.relative_to(ROOT)}::{name}" for path in FILES for name in functions_of(path)]
    assert sum(map(is_nightly, tests)) / len(tests) < SHARE


def test_a_test_is_nightly_by_its_file_its_name_or_its_parameters(monkeypatch):
    monkeypatch.setitem(NIGHTLY, "tests/a.py", ())
    monkeypatch.setitem(NIGHTLY, "tests/b.py", ("test_one", "test_two[x]"))
    listed = ["tests/a.py::test_any", "tests/b.py::test_one", "tests/b.py::test_one[y]", "tests/b.py::test_two[x]"]
    assert all(map(is_nightly, listed))
    assert not any(map(is_nightly, ["tests/b.py::test_two[y]", "tests/b.py::test_ones", "tests/c.py::test_one"]))


def test_make_test_leaves_them_out_and_make_test_all_does_not():
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test: SELECTED = not slow and not nightly$", makefile, re.MULTILINE)
    assert re.search(r"^SELECTED = not slow$", makefile, re.MULTILINE)
